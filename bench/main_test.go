package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain lets the test binary be a server process, as the program itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ServerCommand {
		if err := Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
