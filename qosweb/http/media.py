"""Media types by file name extension.

From: the IANA registry of media types; RFC 9239 (JavaScript), RFC 8081 (fonts), RFC 7763 (Markdown).
The table does not depend on the operating system, so that all nodes of a cluster respond alike. Only text/* gets a
charset: JSON is UTF-8 by definition (RFC 8259), and XML declares its own encoding (RFC 7303).
"""

_UNKNOWN = "application/octet-stream"

_TYPES = {
    # text
    "css": "text/css",
    "csv": "text/csv",
    "htm": "text/html",
    "html": "text/html",
    "ics": "text/calendar",
    "js": "text/javascript",
    "log": "text/plain",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "text": "text/plain",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "vcf": "text/vcard",
    "vtt": "text/vtt",
    # data
    "atom": "application/atom+xml",
    "geojson": "application/geo+json",
    "json": "application/json",
    "jsonld": "application/ld+json",
    "map": "application/json",
    "rss": "application/rss+xml",
    "webmanifest": "application/manifest+json",
    "xhtml": "application/xhtml+xml",
    "xml": "application/xml",
    "xsl": "application/xslt+xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    # images
    "apng": "image/apng",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "gif": "image/gif",
    "ico": "image/vnd.microsoft.icon",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "jxl": "image/jxl",
    "png": "image/png",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "webp": "image/webp",
    # fonts
    "otf": "font/otf",
    "ttc": "font/collection",
    "ttf": "font/ttf",
    "woff": "font/woff",
    "woff2": "font/woff2",
    # sound and film
    "aac": "audio/aac",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mid": "audio/midi",
    "mp3": "audio/mpeg",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "wav": "audio/wav",
    "weba": "audio/webm",
    "m3u8": "application/vnd.apple.mpegurl",
    "m4v": "video/mp4",
    "mkv": "video/matroska",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "ogv": "video/ogg",
    "webm": "video/webm",
    # documents
    "epub": "application/epub+zip",
    "pdf": "application/pdf",
    "ps": "application/postscript",
    "rtf": "application/rtf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    # archives and programs
    "7z": "application/x-7z-compressed",
    "br": "application/x-brotli",
    "bz2": "application/x-bzip2",
    "gz": "application/gzip",
    "tar": "application/x-tar",
    "tgz": "application/gzip",
    "wasm": "application/wasm",
    "xz": "application/x-xz",
    "zip": "application/zip",
    "zst": "application/zstd",
}


def media_type(name: str) -> str:
    """The value of Content-Type for a file of this name."""
    _, dot, extension = name.rpartition(".")
    found = _TYPES.get(extension.lower(), _UNKNOWN) if dot else _UNKNOWN
    return f"{found}; charset=utf-8" if found.startswith("text/") else found
