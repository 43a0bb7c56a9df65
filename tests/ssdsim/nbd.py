# SPDX-License-Identifier: Apache-2.0
"""A client of the NBD protocol over a Unix socket, as small as the tests need: fixed newstyle
handshake, simple replies, one command at a time on a connection. The protocol is described at
https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md."""

import socket
import struct

FLAG_FUA = 1

_READ, _WRITE, _DISCONNECT, _FLUSH, _TRIM = range(5)
_FLAG_NO_ZEROES = 2
_OPTION_EXPORT_NAME = 1
_REQUEST_MAGIC = 0x25609513
_REPLY_MAGIC = 0x67446698


class Client:
    """One connection; every command returns when the server says that it is complete."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        magic, version, flags = struct.unpack(">8s8sH", self._receive(18))
        if magic != b"NBDMAGIC" or version != b"IHAVEOPT":
            raise ConnectionError("not an NBD server")
        self.socket.sendall(struct.pack(">I", flags & 3))
        self.socket.sendall(struct.pack(">8sII", b"IHAVEOPT", _OPTION_EXPORT_NAME, 0))
        self.size, self.flags = struct.unpack(">QH", self._receive(10))
        if not flags & _FLAG_NO_ZEROES:
            self._receive(124)

    def close(self):
        """Disconnects as the protocol asks."""
        self.socket.sendall(struct.pack(">IHHQQI", _REQUEST_MAGIC, 0, _DISCONNECT, 0, 0, 0))
        self.socket.close()

    def read(self, offset, length):
        """The bytes at offset."""
        self._command(_READ, 0, offset, length)
        return self._receive(length)

    def write(self, offset, data, fua=False):
        """Writes the bytes; with FUA they are durable on return."""
        self._command(_WRITE, FLAG_FUA if fua else 0, offset, len(data), data)

    def flush(self):
        """Makes everything written durable."""
        self._command(_FLUSH, 0, 0, 0)

    def trim(self, offset, length):
        """Says that the bytes are no longer needed."""
        self._command(_TRIM, 0, offset, length)

    def _command(self, kind, flags, offset, length, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", _REQUEST_MAGIC, flags, kind, 0, offset, length) +
                            data)
        magic, error, _ = struct.unpack(">IIQ", self._receive(16))
        if magic != _REPLY_MAGIC:
            raise ConnectionError("malformed reply")
        if error:
            raise OSError(error, "the server refused the command")

    def _receive(self, length):
        parts = []
        while length:
            part = self.socket.recv(min(length, 1 << 20))
            if not part:
                raise ConnectionError("the server closed the connection")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)
