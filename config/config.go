// Package config holds the knobs: everything that can be set is an environment variable with the
// prefix GUYLINE_, read once at the start.
//
// [Load] reads them into a [Config] and checks them, each and across each other; nothing checks them again. A wrong value is
// reported with the variable's name, the value and what is allowed, and nothing starts. So is a variable with our prefix
// that does not exist: a misspelt knob must not be taken for a turned one. The rooms get their own configuration from
// [Config.Consumer], [Config.Extract] and [Config.Embedded]. [Config.Vars] lists everything for `guyline config`.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/kelseyhightower/envconfig"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/extract"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

const prefix = "GUYLINE"

// Config is every variable. The tags are what `guyline config` prints.
type Config struct {
	NATSURL string `envconfig:"NATS_URL" allowed:"nats://host:port, ... (also tls, ws and wss; in a password a comma is written %2C, a space %20)" desc:"addresses of NATS servers, comma-separated; empty: the embedded store"`
	DataDir string `envconfig:"DATA_DIR" default:"./guyline-data" allowed:"a directory" desc:"of the embedded store"`
	Sync    string `envconfig:"SYNC" default:"always" allowed:"always, interval" desc:"embedded store: fsync on every write, or every two minutes (faster, but a power cut loses acknowledged reports)"`

	Workers        int           `envconfig:"WORKERS" default:"0" allowed:"1 to 1024; 0: 4 per CPU" desc:"reports in work at once, per process"`
	MaxAttempts    int           `envconfig:"MAX_ATTEMPTS" default:"4" allowed:"1 to 100" desc:"attempts before a report is dead-lettered as exhausted; the same for all workers"`
	BaseDelay      time.Duration `envconfig:"BASE_DELAY" default:"400ms" allowed:"above 0" desc:"before the second attempt; doubles with each further one"`
	Jitter         time.Duration `envconfig:"JITTER" default:"250ms" allowed:"0 to 1h" desc:"at most so much is added to each delay at random"`
	MaxDelay       time.Duration `envconfig:"MAX_DELAY" default:"5m" allowed:"at least BASE_DELAY, at most 24h" desc:"longest delay before jitter, also when a source asks for more"`
	AttemptTimeout time.Duration `envconfig:"ATTEMPT_TIMEOUT" default:"60s" allowed:"above 0, at most 24h" desc:"for one attempt"`
	AckWait        time.Duration `envconfig:"ACK_WAIT" default:"30s" allowed:"1s to 1h" desc:"a worker silent for so long has lost its reports to others; the same for all workers"`
	StopGrace      time.Duration `envconfig:"STOP_GRACE" default:"20s" allowed:"0 to 24h" desc:"how long running attempts may go on after a stop, before they are handed back"`

	Duplicates    time.Duration `envconfig:"DUPLICATES" default:"2m" allowed:"100ms to 24h" desc:"window in which the queue drops a repeated publication; later ones are stopped by the ledger"`
	MaxAckPending int           `envconfig:"MAX_ACK_PENDING" default:"20000" allowed:"above WORKERS" desc:"reports in work or waiting for a retry, per queue; beyond it fresh ones wait"`
	QueueBytes    Bytes         `envconfig:"QUEUE_BYTES" default:"8GiB" allowed:"1MiB or more" desc:"the most that the publishers' queue holds; beyond it publishers are refused"`
	Sweep         time.Duration `envconfig:"SWEEP" default:"30s" allowed:"100ms to 24h" desc:"how often to look for reports that the server will never deliver again"`
	ParkMax       time.Duration `envconfig:"PARK_MAX" default:"24h" allowed:"0s or more, like 24h" desc:"how long a report may be put aside in all while its upstream is down, spending no attempt; 0: never"`
	ReplayMax     int           `envconfig:"REPLAY_MAX" default:"5" allowed:"1 to 1000" desc:"how often one report may be replayed; beyond it its letter is quarantined"`
	DueWarn       time.Duration `envconfig:"DUE_WARN" default:"24h" allowed:"0 to 8760h; 0: never" desc:"status and log lines warn of a dead letter whose report is due within so long"`
	ReplayEvery   time.Duration `envconfig:"REPLAY_EVERY" default:"1h" allowed:"0, or 1m to 24h" desc:"how often one of the workers replays dead letters by itself; those of an upstream that answers again within a minute; 0: neither"`
	ReplayClasses string        `envconfig:"REPLAY_CLASSES" default:"exhausted,abandoned" allowed:"exhausted, abandoned, poison, comma-separated" desc:"which letters are replayed on schedule"`
	ReplayRate    float64       `envconfig:"REPLAY_RATE" default:"10" allowed:"above 0, at most 1000" desc:"letters per second, of automatic replays"`
	LedgerTTL     TTL           `envconfig:"LEDGER_TTL" allowed:"168h or more, like 8760h, and longer than a report can be on its way; 0: for ever" desc:"how long a settled report is remembered, and its repeats are stopped; empty: as the ledger has it, a new one for ever"`
	Replicas      int           `envconfig:"REPLICAS" default:"1" allowed:"1 to 5; 1 with the embedded store" desc:"of streams and buckets"`

	FileRoot string `envconfig:"FILE_ROOT" allowed:"a directory" desc:"that no file: source may leave; empty: the working directory"`
	MaxBytes Bytes  `envconfig:"MAX_BYTES" default:"256MiB" allowed:"1B to 2047MiB" desc:"largest file of a report"`
	CacheDir string `envconfig:"CACHE_DIR" allowed:"a directory" desc:"keeps the compiled PDF engine, 22 MB; empty: guyline in the user's cache directory"`

	TempDir         string `envconfig:"TEMP_DIR" allowed:"a directory" desc:"for downloads in work; empty: the system's"`
	AllowHosts      string `envconfig:"ALLOW_HOSTS" allowed:"host, host:port, *.suffix or *, comma-separated" desc:"where http, https and sftp URIs may lead, also to private addresses; empty or *: every public host"`
	HostConcurrency int    `envconfig:"HOST_CONCURRENCY" default:"4" allowed:"1 to 1024" desc:"downloads from one host at once"`
	S3Endpoint      string `envconfig:"S3_ENDPOINT" allowed:"a URL" desc:"of the S3 store, such as MinIO; empty: Amazon's. Credentials come from the usual AWS variables and files"`
	S3Region        string `envconfig:"S3_REGION" allowed:"a region" desc:"of the S3 store; empty: asked from it"`
	S3PathStyle     bool   `envconfig:"S3_PATH_STYLE" default:"false" allowed:"true, false" desc:"the S3 bucket is named in the path; always so with S3_ENDPOINT"`
	SFTPUser        string `envconfig:"SFTP_USER" allowed:"a name" desc:"to log in with on SFTP servers; empty: no SFTP"`
	SFTPKeyFile     string `envconfig:"SFTP_KEY_FILE" allowed:"a file" desc:"with an unencrypted private key"`
	SFTPPassword    string `envconfig:"SFTP_PASSWORD" allowed:"a password" desc:"tried after key and agent (SSH_AUTH_SOCK)"`
	SFTPKnownHosts  string `envconfig:"SFTP_KNOWN_HOSTS" allowed:"a file" desc:"with the keys of SFTP servers, as in ~/.ssh/known_hosts; empty: no SFTP"`
	ExtractCommand  string `envconfig:"EXTRACT_COMMAND" allowed:"a program and its arguments" desc:"inspects files in place of the built-in PDF inspection"`

	LogLevel  string `envconfig:"LOG_LEVEL" default:"info" allowed:"debug, info, warn, error" desc:"least severe log lines to print"`
	LogFormat string `envconfig:"LOG_FORMAT" default:"auto" allowed:"auto, text, json" desc:"auto: coloured text on a terminal, JSON elsewhere"`
}

// Bytes is a size, written like 256MiB.
type Bytes int64

// Decode reads a size with or without a unit: 1048576, 1MiB, 1MB.
func (b *Bytes) Decode(s string) error {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > 1<<62 {
		return errors.New("not a size like 256MiB")
	}
	*b = Bytes(n)
	return nil
}

func (b Bytes) String() string { return strings.ReplaceAll(humanize.IBytes(uint64(b)), " ", "") }

// TTL is how long something is kept: for ever if it is 0, as it is if it is not set.
type TTL struct {
	Set  bool
	Kept time.Duration
}

// Decode reads a duration; empty is not set.
func (t *TTL) Decode(s string) error {
	if s == "" {
		return nil
	}
	kept, err := time.ParseDuration(s)
	t.Set, t.Kept = true, kept
	return err
}

func (t TTL) String() string {
	if !t.Set {
		return ""
	}
	return t.Kept.String()
}

// leastTTL: the last automatic replay of a report may wait three days for its upstream, and people answer for what is dead after weekends.
const leastTTL = 7 * 24 * time.Hour

// onItsWay is the longest that a copy of a report may be in a queue while workers take from it, unless it is dead-lettered: for as long the
// ledger must remember that another copy has been settled.
func (c *Config) onItsWay() time.Duration {
	attempts := time.Duration(c.MaxAttempts + 2)
	return c.Duplicates + c.ParkMax + attempts*(c.AttemptTimeout+c.MaxDelay+c.Jitter+c.AckWait)
}

func (c *Config) ledgerTTL() bool {
	return c.LedgerTTL.Kept == 0 || c.LedgerTTL.Kept >= leastTTL && c.LedgerTTL.Kept > c.onItsWay()
}

// Load reads the environment. Its error names the variable, its value and what is allowed.
func Load() (Config, error) {
	var c Config
	if err := envconfig.CheckDisallowed(prefix, &c); err != nil {
		name := strings.TrimPrefix(err.Error(), "unknown environment variable ")
		return c, fmt.Errorf("%s is not a variable of ours: `guyline config` lists them all", name)
	}
	if err := envconfig.Process(prefix, &c); err != nil {
		if parse, ok := errors.AsType[*envconfig.ParseError](err); ok {
			err = wrong(parse.KeyName, parse.Value)
			if parse.TypeName == "time.Duration" {
				err = fmt.Errorf("%w; a duration with its unit, like 90s or 5m", err)
			}
		}
		return c, err
	}
	return c, c.validate()
}

func (c *Config) validate() error {
	if c.Workers == 0 {
		c.Workers = 4 * runtime.NumCPU()
	}
	if c.FileRoot == "" {
		c.FileRoot = "."
	}
	if c.CacheDir == "" {
		c.CacheDir = extract.DefaultCacheDir()
	}
	var level slog.Level
	for _, check := range []struct {
		name string
		ok   bool
	}{
		{"DATA_DIR", c.DataDir != ""},
		{"SYNC", c.Sync == "always" || c.Sync == "interval"},
		{"WORKERS", c.Workers >= 1 && c.Workers <= 1024},
		{"MAX_ATTEMPTS", c.MaxAttempts >= 1 && c.MaxAttempts <= 100},
		{"BASE_DELAY", c.BaseDelay > 0},
		{"JITTER", c.Jitter >= 0 && c.Jitter <= time.Hour},
		{"MAX_DELAY", c.MaxDelay >= c.BaseDelay && c.MaxDelay <= 24*time.Hour},
		{"ATTEMPT_TIMEOUT", c.AttemptTimeout > 0 && c.AttemptTimeout <= 24*time.Hour},
		{"ACK_WAIT", c.AckWait >= time.Second && c.AckWait <= time.Hour},
		{"STOP_GRACE", c.StopGrace >= 0 && c.StopGrace <= 24*time.Hour},
		{"DUPLICATES", c.Duplicates >= 100*time.Millisecond && c.Duplicates <= 24*time.Hour},
		{"MAX_ACK_PENDING", c.MaxAckPending > c.Workers},
		{"QUEUE_BYTES", c.QueueBytes >= 1<<20},
		{"SWEEP", c.Sweep >= 100*time.Millisecond && c.Sweep <= 24*time.Hour},
		{"PARK_MAX", c.ParkMax >= 0},
		{"REPLAY_MAX", c.ReplayMax >= 1 && c.ReplayMax <= 1000},
		{"DUE_WARN", c.DueWarn >= 0 && c.DueWarn <= 365*24*time.Hour},
		{"REPLAY_EVERY", c.ReplayEvery == 0 || c.ReplayEvery >= time.Minute && c.ReplayEvery <= keyvalue.LongestTurn},
		{"REPLAY_CLASSES", c.replayClasses() != nil},
		{"REPLAY_RATE", c.ReplayRate > 0 && c.ReplayRate <= 1000},
		{"LEDGER_TTL", c.ledgerTTL()},
		{"REPLICAS", c.Replicas == 1 || c.Replicas > 1 && c.Replicas <= 5 && c.NATSURL != ""},
		{"MAX_BYTES", c.MaxBytes >= 1 && c.MaxBytes < 1<<31},
		{"ALLOW_HOSTS", c.AllowHosts == "" || len(words(c.AllowHosts)) > 0}, // a list of nothing is no wish for every host
		{"HOST_CONCURRENCY", c.HostConcurrency >= 1 && c.HostConcurrency <= 1024},
		{"LOG_LEVEL", level.UnmarshalText([]byte(c.LogLevel)) == nil},
		{"LOG_FORMAT", c.LogFormat == "auto" || c.LogFormat == "text" || c.LogFormat == "json"},
	} {
		if !check.ok {
			return wrong(prefix+"_"+check.name, os.Getenv(prefix+"_"+check.name))
		}
	}
	servers := c.Servers()
	for i, address := range servers {
		if u, err := url.Parse(address); err != nil || u.Host == "" || !strings.Contains(" nats tls ws wss ", " "+u.Scheme+" ") {
			return wrong(prefix+"_NATS_URL", c.redacted()[i])
		}
	}
	if len(servers) == 0 && c.NATSURL != "" { // that is no wish for the embedded store
		return wrong(prefix+"_NATS_URL", c.NATSURL)
	}
	return nil
}

// Servers lists the addresses of GUYLINE_NATS_URL; none means the embedded store.
func (c Config) Servers() []string {
	addresses := words(c.NATSURL)
	for i, a := range addresses {
		if !strings.Contains(a, "://") {
			addresses[i] = "nats://" + a
		}
	}
	return addresses
}

// words splits a list at commas and spaces.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// replayClasses lists GUYLINE_REPLAY_CLASSES; nil if it names something else, or nothing.
func (c Config) replayClasses() (classes []report.Class) {
	for _, word := range words(c.ReplayClasses) {
		switch class := report.Class(word); class {
		case report.ClassExhausted, report.ClassAbandoned, report.ClassPoison:
			classes = append(classes, class)
		default:
			return nil
		}
	}
	return classes
}

// Level is the least severe level to log.
func (c Config) Level() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // validated
	return level
}

// Consumer is the configuration of the queues and of a worker process.
func (c Config) Consumer(version string) consumer.Config {
	out := consumer.DefaultConfig()
	out.Queues.Replicas, out.Queues.QueueBytes, out.Queues.Duplicates = c.Replicas, int64(c.QueueBytes), c.Duplicates
	out.Queues.AckWait, out.Queues.MaxAttempts, out.Queues.MaxAckPending = c.AckWait, c.MaxAttempts, c.MaxAckPending
	out.Workers, out.AttemptTimeout, out.StopGrace, out.Sweep = c.Workers, c.AttemptTimeout, c.StopGrace, c.Sweep
	out.ParkMax, out.DueWarn = c.ParkMax, c.DueWarn
	out.ReplayMax, out.ReplayEvery, out.ReplayClasses, out.ReplayRate = c.ReplayMax, c.ReplayEvery, c.replayClasses(), c.ReplayRate
	out.Backoff = report.Backoff{Base: c.BaseDelay, Max: c.MaxDelay, Jitter: c.Jitter}
	out.Version = version
	return out
}

// Extract is the configuration of fetching and inspecting.
func (c Config) Extract() extract.Config {
	return extract.Config{
		Source: source.Config{
			FileRoot:        c.FileRoot,
			MaxBytes:        int64(c.MaxBytes),
			TempDir:         c.TempDir,
			AllowHosts:      words(c.AllowHosts),
			HostConcurrency: c.HostConcurrency,
			S3:              source.S3{Endpoint: c.S3Endpoint, Region: c.S3Region, PathStyle: c.S3PathStyle},
			SFTP: source.SFTP{
				User: c.SFTPUser, KeyFile: c.SFTPKeyFile, AgentSocket: os.Getenv("SSH_AUTH_SOCK"),
				Password: c.SFTPPassword, KnownHosts: c.SFTPKnownHosts,
			},
		},
		CacheDir: c.CacheDir,
		Command:  c.ExtractCommand,
	}
}

// Embedded is the configuration of the embedded store.
func (c Config) Embedded(create, listen bool, log *slog.Logger) embedded.Config {
	return embedded.Config{Dir: c.DataDir, Create: create, Listen: listen, LazySync: c.Sync == "interval", Log: log}
}
