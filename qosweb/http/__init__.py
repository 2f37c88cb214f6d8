"""HTTP semantics as pure functions.

From: RFC 9110 (semantics) and RFC 3986 (names). Nothing here uses files, clocks or sockets; variable inputs (time,
boundary) are arguments. Input from the wire may be any text: each function has a result for invalid input, or raises
the one exception that it documents.

    targets        request target to canonical path
    hosts          the Host field
    dates          HTTP-date in its three formats
    etags          entity tags and their two comparisons
    preconditions  conditional requests: proceed, 304 or 412
    ranges         Range, Content-Range, multipart/byteranges
    encodings      choice of the content coding
    media          media type of a file name
    bodies         framing of bodies
    hops           header fields of forwarded messages
    upstream_heads response heads of other servers
    known_heads    cache of parsed heads
    forwarded      the client's address behind trusted proxies
    problems       errors as JSON, for clients that prefer it
"""
