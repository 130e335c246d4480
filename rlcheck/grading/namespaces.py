"""A process's own view of the system: Linux namespaces, by system calls, without privileges.

This module stands alone (the standard library), because the jail loads it from its file, in a
process where rlcheck itself cannot be imported.
"""

import contextlib
import ctypes
import os
import signal
import stat
import struct
from pathlib import Path
from typing import Any

__all__ = ["CannotIsolate", "drop_privileges", "enter", "unprivileged_id"]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH, AT_FDCWD, AT_RECURSIVE = 2, -100, 0x8000
SYS_MOUNT_SETATTR = 442  # on every architecture
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
JOIN_SESSION_KEYRING = 1
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
CAPABILITIES_V3 = 0x20080522
NOBODY = 65534
SCRATCH = "size=256m,nr_inodes=16k,mode=1777"  # of a private /tmp and /dev/shm
DEVICES = ("null", "zero", "full", "random", "urandom")
OLD = "/.old"

_libc: Any = ctypes.CDLL(None, use_errno=True)


class CannotIsolate(OSError):
    """The system refuses a step; the text says which."""


def _checked(result: int, step: str) -> int:
    if result < 0:
        raise CannotIsolate(f"{step}: {os.strerror(ctypes.get_errno())}")
    return result


def _mount(source: str, place: str, kind: str | None, flags: int, data: str = "") -> None:
    arguments = (os.fsencode(source), os.fsencode(place), kind.encode() if kind else None)
    _checked(_libc.mount(*arguments, ctypes.c_ulong(flags), data.encode()), f"mounting {place}")


def _set_attributes(place: str, attributes: int) -> None:
    """Add attributes to a mount and to all below it."""
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    number, flags = ctypes.c_long(SYS_MOUNT_SETATTR), ctypes.c_uint(AT_RECURSIVE)
    at = ctypes.c_int(AT_FDCWD)
    path, size = os.fsencode(place), ctypes.c_size_t(len(wanted))
    result = _libc.syscall(number, at, path, flags, wanted, size)
    _checked(result, f"protecting {place}")


def unprivileged_id() -> int:
    """The user that a submission runs as: this one, or nobody in place of root."""
    return os.geteuid() or NOBODY


def enter(layout: list[list[str]]) -> int:
    """Move this process and its later children into namespaces of their own.

    User, mount, process, network, IPC and host name. The first child is the init of the process
    namespace: when it is killed, the system kills every process there.

    Args:
        layout: (how, path, source) in the order of mounting: "bind" shows the source at the
            path, read-only; "hide" covers it with nothing; "link" makes a symbolic link.

    Returns:
        The init's process id.

    Raises:
        CannotIsolate: the step that the system refuses.
    """
    mapped, unshared = os.pipe(), os.pipe()
    me, helper = os.getpid(), os.fork()
    if helper == 0:  # root alone may map a second user, from outside the namespace
        os.close(unshared[1])
        if os.read(unshared[0], 1):
            os.write(mapped[1], _map_users(me).encode())
        os._exit(0)
    os.close(mapped[1])
    try:
        flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC
        _checked(_libc.unshare(flags | CLONE_NEWUTS), "namespaces are not allowed here")
        os.write(unshared[1], b"1")
    finally:
        os.close(unshared[1])
        os.waitpid(helper, 0)
        complaint = os.read(mapped[0], 1000).decode()
        for fd in (mapped[0], unshared[0]):
            os.close(fd)
    if complaint:
        raise CannotIsolate(f"mapping users: {complaint}")
    return _start_init(layout)


def _map_users(pid: int) -> str:
    """Write the maps of users and groups; the complaint, or ""."""
    try:
        if os.geteuid():
            Path(f"/proc/{pid}/setgroups").write_text("deny")
        for name, own in (("uid", os.geteuid()), ("gid", os.getegid())):
            lines = [f"{own} {own} 1"]
            if not os.geteuid() and own != NOBODY:
                lines.append(f"{NOBODY} {NOBODY} 1")
            Path(f"/proc/{pid}/{name}_map").write_text("\n".join(lines) + "\n")
    except OSError as error:
        return str(error)
    return ""


def _start_init(layout: list[list[str]]) -> int:
    """The first process: it mounts, since a /proc shows the namespace of who mounts it."""
    ready, say = os.pipe()
    init = os.fork()
    if init == 0:
        try:
            _build(layout)
        except OSError as error:
            os.write(say, str(error).encode()[:1000])
            os._exit(1)
        os.write(say, b"1")
        for fd in range(512):
            with contextlib.suppress(OSError):
                os.close(fd)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps orphans
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # it ends with the jail
        while True:
            signal.pause()
    os.close(say)
    answer = os.read(ready, 1000)
    os.close(ready)
    if answer != b"1":
        raise CannotIsolate(answer.decode() or "the first process of the namespace died")
    return init


def _build(layout: list[list[str]]) -> None:
    """A root of its own: what the layout shows, and scratch space."""
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    os.chdir("/tmp")
    os.mkdir("/tmp" + OLD)
    pivot = SYS_PIVOT_ROOT.get(os.uname().machine)
    if pivot is None:
        raise CannotIsolate(f"unknown machine {os.uname().machine}")
    _checked(_libc.syscall(ctypes.c_long(pivot), b".", OLD[1:].encode()), "changing the root")
    os.chdir("/")
    os.umask(0o022)
    _devices()
    _processes()
    _mount("tmpfs", _folder("/tmp"), "tmpfs", MS_NOSUID | MS_NODEV, SCRATCH)
    for how, path, source in layout:
        if how == "link":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(source, path)
        elif how == "bind":
            _bind(source, path, MS_RDONLY | MS_NOSUID | MS_NODEV)
        else:  # what lies inside may be bound again
            _mount("tmpfs", _folder(path), "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755")
    for how, path, _ in layout:
        if how == "hide":
            _set_attributes(path, MS_RDONLY)
    _checked(_libc.umount2(OLD.encode(), MNT_DETACH), "leaving the old root")
    os.rmdir(OLD)
    _mount("none", "/", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _folder(path: str) -> str:
    os.makedirs(path, exist_ok=True)
    return path


def _bind(source: str, path: str, attributes: int) -> None:
    old = OLD + source
    if stat.S_ISDIR(os.stat(old).st_mode):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o644))
    _mount(old, path, None, MS_BIND | MS_REC)
    _set_attributes(path, attributes)


def _devices() -> None:
    _mount("tmpfs", _folder("/dev"), "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=755")
    for name in DEVICES:
        _bind(f"/dev/{name}", f"/dev/{name}", MS_NOSUID | MS_NOEXEC)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
    os.symlink("/proc/self/fd", "/dev/fd")
    _mount("tmpfs", _folder("/dev/shm"), "tmpfs", MS_NOSUID | MS_NODEV, SCRATCH)
    _mount("none", "/dev", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC)


def _processes() -> None:
    """A /proc of this namespace alone, without further user namespaces below it."""
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    _mount("proc", _folder("/proc"), "proc", flags)
    with contextlib.suppress(OSError):
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    _mount("none", "/proc", None, MS_BIND | MS_REMOUNT | MS_RDONLY | flags)


def drop_privileges() -> None:
    """Give up every right over the namespaces, for good, and become an ordinary user."""
    user = unprivileged_id()
    keyctl = SYS_KEYCTL.get(os.uname().machine)
    if keyctl is not None:  # without the keys of the session
        _libc.syscall(ctypes.c_long(keyctl), JOIN_SESSION_KEYRING, None)
    if user != os.geteuid():
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
    for capability in range(64):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # unknown ones are refused
    if user != os.geteuid():
        os.setresuid(user, user, user)
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "dropping privileges")
    header, nothing = struct.pack("Ii", CAPABILITIES_V3, 0), bytes(24)
    _checked(_libc.capset(header, nothing), "dropping capabilities")
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
