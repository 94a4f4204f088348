"""Makes shared libraries of a newer glibc look older.

usage: oldglibc.py NEWEST FILE...

Every symbol version GLIBC_x.y above NEWEST is renamed to GLIBX_x.y, with its
hash, where it is defined and where it is needed. The libraries go on fitting
each other; a program that asks for a version above NEWEST is refused by the
dynamic loader as an old system refuses it. ELF of 64 bits, little endian.
"""
import re
import struct
import sys


def elf_hash(name):
    h = 0
    for c in name:
        h = (h << 4) + c
        g = h & 0xF0000000
        h = (h ^ (g >> 24)) & ~g & 0xFFFFFFFF
    return h


def sections(data):
    start, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for i in range(count):
        kind, = struct.unpack_from("<I", data, start + i * size + 4)
        offset, = struct.unpack_from("<Q", data, start + i * size + 24)
        link, = struct.unpack_from("<I", data, start + i * size + 40)
        strings, = struct.unpack_from("<Q", data, start + link * size + 24)
        yield kind, offset, strings


def names(data):
    """Yields (where the hash is, where the name is) of every version."""
    for kind, at, strings in sections(data):
        if kind == 0x6FFFFFFD:  # definitions
            while True:
                _, _, _, _, _, aux, following = struct.unpack_from("<HHHHIII", data, at)
                yield at + 8, strings + struct.unpack_from("<I", data, at + aux)[0]
                if not following:
                    break
                at += following
        if kind == 0x6FFFFFFE:  # needs
            while True:
                _, count, _, aux, following = struct.unpack_from("<HHIII", data, at)
                need = at + aux
                for _ in range(count):
                    _, _, _, name, after = struct.unpack_from("<IHHII", data, need)
                    yield need, strings + name
                    need += after
                if not following:
                    break
                at += following


def numbers(version):
    return [int(n) for n in version.split(b".")]


def main(newest, files):
    newest = numbers(newest.encode())
    for file in files:
        data = bytearray(open(file, "rb").read())
        for hashed, name in list(names(data)):
            text = bytes(data[name:data.index(0, name)])
            version = re.fullmatch(rb"GLIB[CX]_([0-9.]+)", text)
            if version and numbers(version[1]) > newest:
                data[name:name + 5] = b"GLIBX"
                struct.pack_into("<I", data, hashed, elf_hash(b"GLIBX_" + version[1]))
        open(file, "wb").write(data)


main(sys.argv[1], sys.argv[2:])
