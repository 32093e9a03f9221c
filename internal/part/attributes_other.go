//go:build !unix

package part

import "syscall"

// Attributes are those of a process that belongs to this one: there are none here.
func Attributes(bool) *syscall.SysProcAttr { return nil }
