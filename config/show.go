package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Var is one variable as `guyline config` shows it.
type Var struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Allowed string `json:"allowed"`
	Meaning string `json:"meaning"`
}

// Vars lists every variable with its value; passwords are masked.
func (c Config) Vars() []Var {
	v := reflect.ValueOf(c)
	var out []Var
	for f := range v.Type().Fields() {
		value := fmt.Sprint(v.FieldByIndex(f.Index).Interface())
		switch {
		case f.Name == "NATSURL":
			value = c.Redacted()
		case f.Name == "SFTPPassword" && value != "":
			value = "***"
		case f.Name == "S3Endpoint", f.Name == "AllowHosts": // a password in them is wrong, which the worker says; here it is not shown
			value = strings.Join(redactAll(words(value)), ",")
		}
		out = append(out, Var{prefix + "_" + f.Tag.Get("envconfig"), value, f.Tag.Get("default"), f.Tag.Get("allowed"), f.Tag.Get("desc")})
	}
	return out
}

// Redacted is GUYLINE_NATS_URL fit to be shown: users, passwords and tokens are masked.
func (c Config) Redacted() string { return strings.Join(c.redacted(), ",") }

// redacted is [Config.Servers], masked.
func (c Config) redacted() []string {
	shown := redactAll(words(c.NATSURL))
	for i, address := range shown {
		if !strings.Contains(address, "://") {
			shown[i] = "nats://" + address
		}
	}
	return shown
}

// redactAll masks the pieces of a list. An address without a scheme that has an @ can be the rest of a password with a comma or a
// space in it: of what stands before it nothing is shown, back to the beginning of an address.
func redactAll(pieces []string) []string {
	shown := make([]string, len(pieces))
	hide := false
	for i := len(pieces) - 1; i >= 0; i-- {
		scheme, _, begins := strings.Cut(pieces[i], "://")
		at := strings.Contains(pieces[i], "@")
		switch {
		case hide && begins:
			shown[i] = scheme + "://***"
		case hide:
			shown[i] = "***"
		default:
			shown[i] = redact(pieces[i])
		}
		hide = !begins && (at || hide)
	}
	return shown
}

// RedactAddress is one of [Config.Servers] fit to be shown.
func (c Config) RedactAddress(address string) string { return redact(address) }

// redact masks everything before the @ of an address: a token stands where a user name would.
func redact(address string) string {
	i := strings.LastIndexByte(address, '@')
	if i < 0 {
		return address
	}
	scheme, _, found := strings.Cut(address[:i], "://")
	if !found {
		return "***" + address[i:]
	}
	return scheme + "://***" + address[i:]
}
