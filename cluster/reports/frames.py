"""Encodes and decodes the frames of report streams: typed msgpack, one frame each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.reports.messages import ReportFrame

if TYPE_CHECKING:
    from collections.abc import Callable

encode_report_frame: Callable[[ReportFrame], bytes] = msgspec.msgpack.Encoder().encode
decode_report_frame: Callable[[bytes | memoryview], ReportFrame] = msgspec.msgpack.Decoder(ReportFrame).decode
