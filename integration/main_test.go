package integration_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/chaos"
	"github.com/guyline/guyline/extract"
)

// TestMain runs more tests at once than there are CPUs, unless -parallel says otherwise: most of their time is spent
// waiting, for a delay or for a pull to end.
//
// The test binary is also the process that inspects files, and each process of the harness of package chaos.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "extract-child" {
		if err := extract.Child(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 {
		if ours, err := chaosPart(os.Args[1]); ours {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// chaosPart is one process of the harness, if the name is one's.
func chaosPart(name string) (ours bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	switch name {
	case chaos.WorkerCommand:
		return true, chaos.Work(ctx, os.Stdin, os.Stdout, log,
			nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(250*time.Millisecond), nats.PingInterval(10*time.Second))
	case chaos.ServerCommand:
		return true, chaos.Serve(ctx, os.Stdin, os.Stdout, log)
	case chaos.CleanCommand:
		return true, chaos.Clean(ctx, os.Stdin)
	}
	return false, nil
}
