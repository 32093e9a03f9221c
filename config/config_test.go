package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/report"
)

// load reads the configuration with these variables and no others of ours.
func load(t *testing.T, env ...string) (Config, error) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, prefix+"_") {
			t.Setenv(name, "") // so that it is restored
			os.Unsetenv(name)
		}
	}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	return Load()
}

// The defaults of the environment are those of a Go program that imports package consumer.
func TestDefaults(t *testing.T) {
	c, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(consumer.DefaultConfig(), c.Consumer("dev"), cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".Observe"
	}, cmp.Ignore())); diff != "" {
		t.Errorf("(-package +environment)\n%s", diff)
	}
	if c.Embedded(true, true, nil).LazySync {
		t.Error("the embedded store does not sync every write by default")
	}
}

// The README shows every variable's default as the program has it.
func TestReadmeShowsDefaults(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range (Config{}).Vars() {
		short := strings.TrimPrefix(v.Name, prefix)
		found := false
		for line := range strings.Lines(string(readme)) {
			if strings.HasPrefix(line, "| `GUYLINE_") && strings.Contains(line, short+"`") {
				found = true
				if v.Default != "" && v.Default != "0" && !strings.Contains(line, v.Default) {
					t.Errorf("the README's default of %s is not %s: %s", v.Name, v.Default, line)
				}
			}
		}
		if !found {
			t.Errorf("the README's table has no %s", v.Name)
		}
		if v.Allowed == "" || v.Meaning == "" {
			t.Errorf("%s has no meaning or no bounds", v.Name)
		}
	}
}

func TestWrongValues(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"GUYLINE_WORKERS=many", `GUYLINE_WORKERS is "many", allowed: 1 to 1024; 0: 4 per CPU`},
		{"GUYLINE_WORKERS=1025", `GUYLINE_WORKERS is "1025", allowed: 1 to 1024; 0: 4 per CPU`},
		{"GUYLINE_WORKERS=-1", `GUYLINE_WORKERS is "-1"`},
		{"GUYLINE_MAX_ATTEMPTS=0", `GUYLINE_MAX_ATTEMPTS is "0"`},
		{"GUYLINE_BASE_DELAY=0s", `GUYLINE_BASE_DELAY is "0s", allowed: above 0`},
		{"GUYLINE_BASE_DELAY=400", `GUYLINE_BASE_DELAY is "400"`},
		{"GUYLINE_MAX_DELAY=100ms", `GUYLINE_MAX_DELAY is "100ms", allowed: at least BASE_DELAY`},
		{"GUYLINE_JITTER=-1s", `GUYLINE_JITTER is "-1s"`},
		{"GUYLINE_ATTEMPT_TIMEOUT=0s", `GUYLINE_ATTEMPT_TIMEOUT is "0s"`},
		{"GUYLINE_ACK_WAIT=10ms", `GUYLINE_ACK_WAIT is "10ms", allowed: 1s to 1h`},
		{"GUYLINE_STOP_GRACE=-1s", `GUYLINE_STOP_GRACE is "-1s"`},
		{"GUYLINE_DUPLICATES=1ms", `GUYLINE_DUPLICATES is "1ms"`},
		{"GUYLINE_MAX_ACK_PENDING=1", `GUYLINE_MAX_ACK_PENDING is "1", allowed: above WORKERS`},
		{"GUYLINE_QUEUE_BYTES=1kB", `GUYLINE_QUEUE_BYTES is "1kB"`},
		{"GUYLINE_QUEUE_BYTES=lots", `GUYLINE_QUEUE_BYTES is "lots"`},
		{"GUYLINE_SWEEP=0s", `GUYLINE_SWEEP is "0s"`},
		{"GUYLINE_SWEEP=25h", `GUYLINE_SWEEP is "25h", allowed: 100ms to 24h`},
		{"GUYLINE_REPLAY_EVERY=30s", `GUYLINE_REPLAY_EVERY is "30s", allowed: 0, or 1m to 24h`},
		{"GUYLINE_REPLAY_EVERY=25h", `GUYLINE_REPLAY_EVERY is "25h"`},
		{"GUYLINE_REPLAY_EVERY=-1h", `GUYLINE_REPLAY_EVERY is "-1h"`},
		{"GUYLINE_REPLAY_CLASSES=exhausted,poisonous", `GUYLINE_REPLAY_CLASSES is "exhausted,poisonous", allowed: exhausted, abandoned, poison`},
		{"GUYLINE_REPLAY_CLASSES=", `GUYLINE_REPLAY_CLASSES is ""`},
		{"GUYLINE_REPLAY_RATE=0", `GUYLINE_REPLAY_RATE is "0", allowed: above 0`},
		{"GUYLINE_REPLAY_RATE=NaN", `GUYLINE_REPLAY_RATE is "NaN"`},
		{"GUYLINE_LEDGER_TTL=167h", `GUYLINE_LEDGER_TTL is "167h", allowed: 168h or more, like 8760h, and longer than a report can be on its way; 0: for ever`},
		{"GUYLINE_LEDGER_TTL=-1h", `GUYLINE_LEDGER_TTL is "-1h"`},
		{"GUYLINE_LEDGER_TTL=30d", `GUYLINE_LEDGER_TTL is "30d"`},
		{"GUYLINE_REPLICAS=3", `GUYLINE_REPLICAS is "3", allowed: 1 to 5; 1 with the embedded store`},
		{"GUYLINE_MAX_BYTES=2GiB", `GUYLINE_MAX_BYTES is "2GiB"`},
		{"GUYLINE_ALLOW_HOSTS= , ", `GUYLINE_ALLOW_HOSTS is " , ", allowed: host, host:port, *.suffix or *`},
		{"GUYLINE_HOST_CONCURRENCY=0", `GUYLINE_HOST_CONCURRENCY is "0", allowed: 1 to 1024`},
		{"GUYLINE_S3_PATH_STYLE=maybe", `GUYLINE_S3_PATH_STYLE is "maybe", allowed: true, false`},
		{"GUYLINE_DATA_DIR=", `GUYLINE_DATA_DIR is "", allowed: a directory`},
		{"GUYLINE_SYNC=never", `GUYLINE_SYNC is "never", allowed: always, interval`},
		{"GUYLINE_LOG_LEVEL=loud", `GUYLINE_LOG_LEVEL is "loud"`},
		{"GUYLINE_LOG_FORMAT=xml", `GUYLINE_LOG_FORMAT is "xml"`},
		{"GUYLINE_BASE_DELAY=5", `GUYLINE_BASE_DELAY is "5", allowed: above 0; a duration with its unit, like 90s or 5m`},
		{"GUYLINE_NATS_URL=nats://", `GUYLINE_NATS_URL is "nats://"`},
		{"GUYLINE_NATS_URL= , ", `GUYLINE_NATS_URL is " , "`},
		{"GUYLINE_NATS_URL=http://u:s@h", `GUYLINE_NATS_URL is "http://***@h", allowed: nats://host:port, ... (also tls, ws and wss;`},
		{"GUYLINE_NATS_URL=nats://u:se,cret@h", `GUYLINE_NATS_URL is "nats://***", allowed: nats://host:port`},
		{"GUYLINE_NATS_URL=nats://u:s e cret@h:1", `GUYLINE_NATS_URL is "nats://***", allowed: nats://host:port`},
		{"GUYLINE_NATS_URL=nats://token@:x:y", `GUYLINE_NATS_URL is "nats://***@:x:y"`},
		{"GUYLINE_WORKER=8", "GUYLINE_WORKER is not a variable of ours"},
	} {
		t.Run(tt.env, func(t *testing.T) {
			_, err := load(t, tt.env)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// What the environment may say, the worker takes: nothing is refused later, in other words.
func TestExtremes(t *testing.T) {
	for name, env := range map[string][]string{
		"least": {
			"WORKERS=1", "MAX_ATTEMPTS=1", "BASE_DELAY=1ns", "JITTER=0", "MAX_DELAY=1ns", "ATTEMPT_TIMEOUT=1ns", "ACK_WAIT=1s", "STOP_GRACE=0",
			"DUPLICATES=100ms", "MAX_ACK_PENDING=2", "QUEUE_BYTES=1MiB", "SWEEP=100ms", "PARK_MAX=0", "REPLAY_MAX=1", "DUE_WARN=0", "REPLAY_EVERY=1m", "REPLAY_RATE=0.001",
		},
		"most": {
			"WORKERS=1024", "MAX_ATTEMPTS=100", "BASE_DELAY=24h", "JITTER=1h", "MAX_DELAY=24h", "ATTEMPT_TIMEOUT=24h", "ACK_WAIT=1h", "STOP_GRACE=24h",
			"DUPLICATES=24h", "MAX_ACK_PENDING=1025", "QUEUE_BYTES=1PiB", "SWEEP=24h", "PARK_MAX=8760h", "REPLAY_MAX=1000", "DUE_WARN=8760h", "REPLAY_EVERY=24h", "REPLAY_RATE=1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range env {
				env[i] = prefix + "_" + env[i]
			}
			c, err := load(t, env...)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Consumer("dev").Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A ledger must not forget a report of which another copy can still be on its way.
func TestLedgerTTL(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		want TTL
		ok   bool
	}{
		{nil, TTL{}, true},
		{[]string{"GUYLINE_LEDGER_TTL="}, TTL{}, true},
		{[]string{"GUYLINE_LEDGER_TTL=0"}, TTL{Set: true}, true},
		{[]string{"GUYLINE_LEDGER_TTL=168h"}, TTL{true, 168 * time.Hour}, true},
		{[]string{"GUYLINE_LEDGER_TTL=168h", "GUYLINE_PARK_MAX=168h"}, TTL{true, 168 * time.Hour}, false},
		{[]string{"GUYLINE_LEDGER_TTL=169h", "GUYLINE_PARK_MAX=168h"}, TTL{true, 169 * time.Hour}, true},
		{[]string{"GUYLINE_LEDGER_TTL=720h", "GUYLINE_MAX_DELAY=24h", "GUYLINE_MAX_ATTEMPTS=30"}, TTL{true, 720 * time.Hour}, false},
	} {
		if c, err := load(t, tt.env...); c.LedgerTTL != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %+v, %v; want %+v, allowed: %v", tt.env, c.LedgerTTL, err, tt.want, tt.ok)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	c, err := load(t, "GUYLINE_NATS_URL=nats://user:secret@a:4222, b:4222,tls://secret@c", "GUYLINE_SFTP_PASSWORD=secret")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"nats://user:secret@a:4222", "nats://b:4222", "tls://secret@c"}; !cmp.Equal(c.Servers(), want) {
		t.Errorf("servers %q, want %q", c.Servers(), want)
	}
	for _, v := range c.Vars() {
		if strings.Contains(v.Value, "secret") {
			t.Errorf("%s shows a secret: %s", v.Name, v.Value)
		}
	}
}

// Whatever is wrong with an address, what stands before its last @ is not shown.
func TestRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"":                                "",
		"a:4222":                          "nats://a:4222",
		"a, b:4222":                       "nats://a,nats://b:4222",
		"secret@a":                        "nats://***@a",
		"tls://secret@a,wss://u:secret@b": "tls://***@a,wss://***@b",
		"nats://u:1,secret@a":             "nats://***,nats://***@a",
		"nats://u:1@2,secret@a":           "nats://***,nats://***@a",
		"nats://a,nats://u:1 2 secret@b":  "nats://a,nats://***,nats://***,nats://***@b",
		"nats://secret/x@a":               "nats://***@a",
	} {
		c := Config{NATSURL: address, S3Endpoint: "https://u:secret@s3", AllowHosts: "a,https://u:secret@b,https://u:secret,1@c,secret@d:1"}
		if got := c.Redacted(); got != want {
			t.Errorf("%q is shown as %q, want %q", address, got, want)
		}
		for _, v := range c.Vars() {
			if strings.Contains(v.Value, "secret") {
				t.Errorf("%s shows a secret: %s", v.Name, v.Value)
			}
		}
	}
}

func TestReplayClasses(t *testing.T) {
	c, err := load(t, "GUYLINE_REPLAY_CLASSES=poison, exhausted", "GUYLINE_REPLAY_EVERY=0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.Consumer("dev")
	if want := []report.Class{report.ClassPoison, report.ClassExhausted}; !cmp.Equal(cfg.ReplayClasses, want) || cfg.ReplayEvery != 0 {
		t.Errorf("classes %q every %v, want %q and off", cfg.ReplayClasses, cfg.ReplayEvery, want)
	}
}
