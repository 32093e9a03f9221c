package config

import (
	"errors"
	"fmt"

	"github.com/guyline/guyline/report"
)

// wrong says what is allowed in place of a value.
func wrong(name, value string) error {
	for _, v := range (Config{}).Vars() {
		if v.Name == name {
			return fmt.Errorf("%s is %q, allowed: %s", name, value, v.Allowed)
		}
	}
	return fmt.Errorf("%s is %q, which cannot be read", name, value)
}

// Wrong is an error about what [Config.Extract] has returned as one about the variable behind it. It is nil if err is about something else.
func (c Config) Wrong(err error) error {
	e, ok := errors.AsType[*report.ConfigError](err)
	if !ok {
		return nil
	}
	name := prefix + "_" + map[string]string{
		"FileRoot": "FILE_ROOT", "TempDir": "TEMP_DIR", "AllowHosts": "ALLOW_HOSTS", "CacheDir": "CACHE_DIR", "Command": "EXTRACT_COMMAND",
		"S3.Endpoint": "S3_ENDPOINT", "SFTP.User": "SFTP_USER", "SFTP.KeyFile": "SFTP_KEY_FILE", "SFTP.KnownHosts": "SFTP_KNOWN_HOSTS",
	}[e.Field]
	for _, v := range c.Vars() {
		if v.Name == name {
			return fmt.Errorf("%w: %w", wrong(name, v.Value), e.Err)
		}
	}
	return nil
}
