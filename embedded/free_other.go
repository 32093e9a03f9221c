//go:build !linux && !darwin && !freebsd

package embedded

import "errors"

// Free is how many bytes the disk of a directory has left for this user.
func Free(string) (uint64, error) { return 0, errors.ErrUnsupported }
