"""Takes from a Python on Linux what Windows does not have: put this folder on `PYTHONPATH` of a process of its own.

Names that the standard library or another package needs on Linux stay, since those would not run without them. What a
call does on Windows, this cannot show; that nothing needs what is gone, it does.
"""

import errno
import os
import signal
import sys

for name in ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None  # type: ignore[assignment]  # importing it fails from now on
for name in ("fchmod", "fork", "forkpty", "getpgid", "getpgrp", "killpg", "mkfifo", "setsid",
             "tcgetpgrp", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"):  # fmt: skip
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGALRM", "alarm", "setitimer"):
    delattr(signal, name)
os.supports_dir_fd.clear()
os.supports_fd.clear()


def refuse_link(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "A required privilege is not held by the client")


os.symlink = refuse_link
