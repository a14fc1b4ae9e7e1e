"""The two system call filters, assembled here for x86-64 and aarch64. Standard library only.

`template` is set by bubblewrap before anything of ours runs inside; `child` is the tighter one that each child sets on
itself before it imports student code. Both are deny lists in front of namespaces, no /proc and no capabilities: a
denied call answers EPERM (ENOSYS for clone3, so that the C library falls back to clone, whose flags can be looked at).
"""

from __future__ import annotations

import platform
import struct

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name -> (x86-64, aarch64); None where the architecture does not have the call
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "setns": (308, 268),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "personality": (135, 92),
    "syslog": (103, 116),
    "kcmp": (312, 272),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "pidfd_getfd": (438, 438),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "link": (86, None),
    "linkat": (265, 37),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "unshare": (272, 97),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "inotify_init1": (294, 26),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "setrlimit": (160, 164),
    "sethostname": (170, 161),
    "setuid": (105, 146),
    "setgid": (106, 144),
    "setreuid": (113, 145),
    "setresuid": (117, 147),
    "setgroups": (116, 159),
    "capset": (126, 91),
    "process_madvise": (440, 440),
    "setpriority": (141, 140),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "splice": (275, 76),
    "vmsplice": (278, 75),
}
# what the template itself never needs: everything up to and including pidfd_getfd in the table above
_TEMPLATE = tuple(_CALLS)[: tuple(_CALLS).index("pidfd_getfd") + 1]
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435


def _op(code: int, k: int, jt: int = 0, jf: int = 0) -> bytes:
    return struct.pack("<HBBI", code, jt, jf, k)


def _program(names: tuple[str, ...], machine: str, threads_only: bool) -> bytes:
    column = 0 if machine == "x86_64" else 1
    out = [_op(_LD, 4), _op(_JEQ, _AUDIT[machine], 1, 0), _op(_RET, _KILL), _op(_LD, 0)]
    if machine == "x86_64":  # the x32 numbers name the same calls a second time
        out += [_op(_JGE, 0x40000000, 0, 1), _op(_RET, _KILL)]
    for name in names:
        number = _CALLS[name][column]
        if number is not None:
            out += [_op(_JEQ, number, 0, 1), _op(_RET, _ERRNO | _EPERM)]
    if threads_only:
        out += [_op(_JEQ, _CLONE3, 0, 1), _op(_RET, _ERRNO | _ENOSYS)]
        out += [_op(_JEQ, _CLONE[machine], 0, 4), _op(_LD, 16), _op(_JSET, _CLONE_THREAD, 1, 0)]
        out += [_op(_RET, _ERRNO | _EPERM), _op(_RET, _ALLOW)]
    return b"".join([*out, _op(_RET, _ALLOW)])


def machine() -> str:
    """The architecture the filters are for. Raises OSError where there is none."""
    name = platform.machine()
    if name not in _AUDIT:
        raise OSError(f"no system call filter for the architecture {name}")
    return name


def template(name: str) -> bytes:
    """The program for the template, as bubblewrap's --seccomp reads it (an array of struct sock_filter)."""
    return _program(_TEMPLATE, name, threads_only=False)


def child(name: str) -> bytes:
    """The program that a child sets on itself before it imports student code."""
    return _program(tuple(_CALLS), name, threads_only=True)
