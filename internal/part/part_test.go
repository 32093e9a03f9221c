package part_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/internal/part"
)

// TestMain lets the test binary be the part "echo", as the program itself is its parts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "echo" {
		os.Exit(echo())
	}
	os.Exit(m.Run())
}

type settings struct{ Greeting string }

// echo prints its greeting and each line that it is told, complains in the end, and ends with its input.
func echo() int {
	var s settings
	ctx, err := part.Settings(context.Background(), os.Stdin, &s, func(line string) { fmt.Fprintln(os.Stdout, "told", line) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, s.Greeting)
	<-ctx.Done()
	fmt.Fprintln(os.Stdout, "bye")
	fmt.Fprintln(os.Stderr, "left alone")
	return 0
}

func TestPart(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	lines := make(chan string, 10)
	p, err := part.Start(part.Config{Command: "echo", Settings: settings{"good morning"}, Log: &log, Line: func(line []byte) { lines <- string(line) }})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{<-lines}
	p.Say("a word")
	got = append(got, <-lines)
	select {
	case <-p.Ended():
		t.Error("it has ended while its starter lives")
	default:
	}
	p.Leave()
	<-p.Ended()
	close(lines)
	for line := range lines {
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"good morning", "told a word", "bye"}, got); diff != "" {
		t.Errorf("it said (-want +got):\n%s", diff)
	}
	if log.String() != "left alone\n" {
		t.Errorf("its log has %q", log.String())
	}
	p.Say("nobody hears") // nor is that an error
	p.Kill()
}

func TestKill(t *testing.T) {
	t.Parallel()
	said := make(chan string, 10)
	p, err := part.Start(part.Config{Command: "echo", Settings: settings{"hello"}, Line: func(line []byte) { said <- string(line) }, Outlives: true})
	if err != nil {
		t.Fatal(err)
	}
	<-said
	p.Kill()
	if len(said) > 0 {
		t.Errorf("it was killed and said %q", <-said)
	}
}

func TestNoSettings(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "\n", "words\n"} {
		if _, err := part.Settings(t.Context(), strings.NewReader(in), &settings{}, nil); err == nil {
			t.Errorf("%q is taken for settings", in)
		}
	}
	if _, err := part.Start(part.Config{Command: "echo", Settings: func() {}}); err == nil {
		t.Error("settings that are no JSON")
	}
}
