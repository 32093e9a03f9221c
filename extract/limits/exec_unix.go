//go:build unix && !linux

package limits

import "syscall"

func become(path string, argv, env []string) error { return syscall.Exec(path, argv, env) }
