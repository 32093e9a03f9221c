package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// kills is how often the store's process is killed while it publishes.
const kills = 50

// bePublisher opens the store, publishes numbers from several goroutines for ever, and writes each to stdout once it is acknowledged.
func bePublisher(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{Dir: dir, Create: true})
	if err != nil {
		return err
	}
	nc, err := s.Connect()
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S"}); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "ready")
	start := time.Now().UnixNano() // numbers of two processes differ
	failed := make(chan error)
	for n := range int64(4) {
		go func() {
			for i := start + n; ; i += 4 {
				word := strconv.FormatInt(i, 10)
				if _, err := js.Publish(ctx, "S", []byte(word)); err != nil {
					failed <- err
				}
				fmt.Fprintln(os.Stdout, word) // one write: whole, or not there
			}
		}()
	}
	return <-failed
}

// A process that holds the store is killed again and again while it publishes: whatever it was told is stored is stored. It dies at
// another moment each time, sooner and later after its start, at times before it is ready.
func TestKilledWhilePublishing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range kills {
		for _, word := range publishAndKill(t, dir, round%5, rand.N(20*time.Millisecond), round%10 == 9) {
			acknowledged[word] = true
		}
	}
	if len(acknowledged) < kills {
		t.Errorf("only %d were acknowledged in all: the test shows little", len(acknowledged))
	}
	s := open(t, Config{Dir: dir})
	js := connected(t, s)
	stored, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	st := stored.CachedInfo().State
	found := 0
	for seq := st.FirstSeq; seq <= st.LastSeq; seq++ {
		m, err := stored.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		if acknowledged[string(m.Data)] {
			found++
			delete(acknowledged, string(m.Data))
		}
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged messages are lost, %d are there", len(acknowledged), found)
	}
	t.Logf("%d kills, %d acknowledged and stored, %d stored in all", kills, found, st.Msgs)
}

// publishAndKill runs a publisher and kills it a time after it has acknowledged some words, or after its start if early is set. It returns
// what was acknowledged by then.
func publishAndKill(t *testing.T, dir string, some int, after time.Duration, early bool) (words []string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "EMBEDDED_TEST_PUBLISH="+dir)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var killing sync.WaitGroup
	kill := func() {
		killing.Go(func() {
			<-time.After(after)
			_ = cmd.Process.Kill()
		})
	}
	if early {
		kill()
	}
	lines := bufio.NewReader(stdout)
	for ready := false; ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch word := line[:len(line)-1]; {
		case ready:
			words = append(words, word)
		case word == "ready":
			ready = true
		default:
			t.Errorf("the process says %q", word)
		}
		if ready && !early && len(words) == some {
			kill()
		}
	}
	killing.Wait()
	_ = cmd.Wait() // killed
	return words
}
