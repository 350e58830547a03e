package scale

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// requests are what user has done.
type requests struct {
	by   map[string]int // verb and resource
	last map[string]time.Time
}

// mark returns the present end of the audit log.
func mark(b *testing.B) int64 {
	b.Helper()
	info, err := os.Stat(plane.auditLog)
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// since counts what came after a mark.
func since(b *testing.B, from int64) requests {
	b.Helper()
	log, err := os.ReadFile(plane.auditLog)
	if err != nil {
		b.Fatal(err)
	}
	r := requests{by: map[string]int{}, last: map[string]time.Time{}}
	for line := range bytes.Lines(log[from:]) {
		if line[len(line)-1] != '\n' {
			break // being written
		}
		var entry struct {
			Verb      string `json:"verb"`
			ObjectRef struct {
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
			} `json:"objectRef"`
			Finished time.Time `json:"stageTimestamp"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			b.Fatal(err)
		}
		what := entry.Verb + " " + entry.ObjectRef.Resource
		if entry.ObjectRef.Subresource != "" {
			what += "/" + entry.ObjectRef.Subresource
		}
		r.by[what]++
		r.last[what] = entry.Finished
	}
	return r
}

// total counts all of them.
func (r requests) total() (n int) {
	for _, count := range r.by {
		n += count
	}
	return n
}

// writes counts those about Nodes that change something, with the Events.
func (r requests) writes() int {
	return r.by["update nodes"] + r.by["patch nodes"] + r.by["patch nodes/status"] + r.by["create events"] + r.by["patch events"]
}
