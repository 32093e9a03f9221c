package integration_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain runs more tests at once than there are CPUs, unless -parallel says otherwise: most of their time is spent
// waiting, for a delay or for a pull to end.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
