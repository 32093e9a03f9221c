package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// version of the checkout; set by the script run.
var version = "unknown"

// machine is where and with what was measured.
type machine struct {
	Time     time.Time         `json:"time"`
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Kernel   string            `json:"kernel"`
	Versions map[string]string `json:"versions"`
	names    []string          // of Versions, in order
}

// describe asks for all versions. Its error says what has to be installed for the rows.
func describe(rows []row) (machine, error) {
	m := machine{Time: time.Now().UTC(), CPU: cpuModel(), CPUs: runtime.NumCPU(), Versions: map[string]string{}}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace(string(kernel))
	m.add("go", strings.TrimPrefix(runtime.Version(), "go"))
	built, _ := debug.ReadBuildInfo()
	m.add("guyline", version)
	m.add("nats-server", natsserver.VERSION)
	libraries := map[string]string{
		"github.com/nats-io/nats.go": "nats.go", "github.com/hibiken/asynq": "asynq", "github.com/redis/go-redis/v9": "go-redis",
		"github.com/riverqueue/river": "river", "github.com/jackc/pgx/v5": "pgx", "github.com/ThreeDotsLabs/watermill": "watermill",
		"github.com/ThreeDotsLabs/watermill-nats/v2": "watermill-nats",
	}
	for _, d := range built.Deps {
		if name, ok := libraries[d.Path]; ok {
			m.add(name, d.Version)
		}
	}
	for _, r := range rows {
		if strings.HasPrefix(r.name, "asynq") && m.Versions["redis"] == "" {
			path, err := findRedis()
			if err != nil {
				return m, err
			}
			m.add("redis", versionOf(path))
		}
		if strings.HasPrefix(r.name, "river") && m.Versions["postgresql"] == "" {
			bin, err := findPostgres()
			if err != nil {
				return m, err
			}
			m.add("postgresql", versionOf(filepath.Join(bin, "postgres")))
		}
	}
	return m, nil
}

func (m *machine) add(name, version string) {
	m.Versions[name] = version
	m.names = append(m.names, name)
}

func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d CPUs, Linux %s, %s\n", m.CPU, m.CPUs, m.Kernel, m.Time.Format(time.DateTime))
	for i, name := range m.names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + " " + m.Versions[name])
	}
	return b.String()
}

// versionOf is the first word with a digit and a dot of what a program says to --version.
func versionOf(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "?"
	}
	for word := range strings.FieldsSeq(string(out)) {
		word = strings.TrimPrefix(word, "v=")
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word
		}
	}
	return "?"
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
