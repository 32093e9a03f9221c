package consumer

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are CPUs, unless the caller has said how many: most of their time they
// wait for the server to deliver something again.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
