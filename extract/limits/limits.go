package limits

import "time"

// Limits is what a process may use. Zero means no limit.
type Limits struct {
	Data     int64         // memory that it can write to, in bytes
	CPU      time.Duration // CPU time of the process in all its life, rounded up to a second
	FileSize int64         // the largest file that it may write, in bytes; negative = it may write none
	Files    int           // descriptors open at once
}
