//go:build !linux && !darwin

package limits

import "time"

// Missing names the limits that this system does not have.
func Missing() []string {
	return []string{"memory", "CPU time", "file size", "open files", "inherited descriptors", "process group", "death with the worker"}
}

// Apply limits nothing on this system.
func (l Limits) Apply() error { return nil }

// AllowCPU limits nothing on this system.
func AllowCPU(more time.Duration) error { return nil }

// CloseInherited closes nothing on this system.
func CloseInherited(keep int) error { return nil }
