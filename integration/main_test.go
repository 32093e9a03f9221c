package integration_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/guyline/guyline/extract"
)

// TestMain runs more tests at once than there are CPUs, unless -parallel says otherwise: most of their time is spent
// waiting, for a delay or for a pull to end.
//
// The test binary is also the process that inspects files.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "extract-child" {
		if err := extract.Child(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
