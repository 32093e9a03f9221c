package extract

import (
	"context"
	"errors"

	"github.com/guyline/guyline/extract/child"
	"github.com/guyline/guyline/extract/limits"
)

// Child is the life of a process that an [Extractor] starts, with the arguments it was given: either "inspect" and
// the cache directory, to inspect files until the worker is gone, or "exec", limits and a command, which it becomes.
func Child(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "inspect":
		return child.Serve(ctx, args[1])
	case len(args) > 1 && args[0] == "exec":
		return limits.Exec(args[1:], 3) // standard files and the report
	}
	return errors.New("extract: this command is for guyline's own use; `guyline inspect FILE` inspects a file by hand")
}
