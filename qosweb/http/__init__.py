"""HTTP semantics as pure functions: values in, values out.

From: RFC 9110 (semantics) and RFC 3986 (names). Nothing here opens a file, reads a clock or knows a socket;
whatever varies (the time, a boundary) is an argument. Input from the wire may be any text at all: a function
either has a value for "this is not valid" or raises the one error that it documents.

    targets        what is asked for: request target -> canonical path
    hosts          of whom: the Host field
    dates          HTTP-date, in three spellings
    etags          entity tags and their two comparisons
    preconditions  proceed, 304 or 412
    ranges         which bytes: Range, Content-Range, multipart/byteranges
    encodings      in which content coding
    media          of which media type
"""
