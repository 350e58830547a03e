// Package bundle makes one archive for finding out elsewhere what is wrong with a cluster.
//
// Start at [Bundle]: what is added to it is redacted as it comes in, and nothing gets into the archive another way.
// [Bundle.Cluster] asks the API server, [Bundle.WriteFile] writes.
//
// Reads: ConfigMaps of kubeadm and ccmadm, Events and pods of kube-system, logs of cloud-controller-managers and node
// agents. No Secret is read. The archive lists in not-seen.txt what could not be read.
// Writes: one file, mode 0600, at once or not at all; a file that is there is never replaced.
package bundle

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
)

const (
	// root is the archive's only folder.
	root = "ccmadm-support"
	// mostBytes bounds one text of the archive, mostInAll all files. A document has no other bound: half of one is none.
	mostBytes, mostInAll = 8 << 20, 128 << 20
	// longestName is that of one part of a path.
	longestName = 100
)

// Bundle is what goes into the archive. Its methods may be called at once.
type Bundle struct {
	taken  time.Time
	mu     sync.Mutex
	files  map[string][]byte
	bytes  int
	missed []string
}

// New returns an empty one. Taken is the time of every file in it.
func New(taken time.Time) *Bundle {
	return &Bundle{taken: taken.UTC().Truncate(time.Second), files: map[string][]byte{}}
}

// Text adds a text, as a log, without credentials and without what a terminal would act on.
func (b *Bundle) Text(name, text string) {
	text = clean(text)
	if len(text) > mostBytes {
		b.Missed(safePath(name), fmt.Errorf("its beginning, for it has %d MiB", len(text)>>20))
		text = wholeLines(text[len(text)-mostBytes:])
	}
	b.add(name, []byte(text))
}

// clean is a text without credentials, and without what a terminal would act on.
func clean(text string) string { return printable(redact.Text(text)) }

// printable is a text without what a terminal would act on.
func printable(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(finding.Clean(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return lines.String()
}

// Document adds a file of YAML or JSON without credentials.
func (b *Bundle) Document(name string, data []byte) { b.add(name, redact.Document(data)) }

// Keys adds a file of which no value is kept, as a cloud's configuration.
func (b *Bundle) Keys(name string, data []byte) { b.add(name, redact.Keys(data)) }

// Object adds something as YAML, or as JSON where its name says so, without credentials.
func (b *Bundle) Object(name string, object any) {
	data, err := json.Marshal(object)
	var value any
	if err == nil {
		err = json.Unmarshal(data, &value)
	}
	if err == nil {
		value = redact.Value(value)
		switch {
		case !strings.HasSuffix(name, ".json"):
			data, err = yaml.Marshal(value)
		case len(data) < mostBytes:
			data, err = json.MarshalIndent(value, "", " ")
		default: // a third of it would be blanks
			data, err = json.Marshal(value)
		}
	}
	if err != nil {
		b.Missed(name, err)
		return
	}
	b.add(name, data)
}

// Missed says of something why it is not in the archive.
func (b *Bundle) Missed(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missed = append(b.missed, finding.Clean(what)+": "+finding.Clean(redact.Text(err.Error())))
}

// NotSeen is what could not be read, each a line.
func (b *Bundle) NotSeen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.missed)
	return slices.Clone(slices.Compact(b.missed))
}

// add keeps what is redacted already.
func (b *Bundle) add(name string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name = safePath(name)
	switch _, taken := b.files[name]; {
	case taken:
		b.missed = append(b.missed, name+": there is a file of this name already")
		return
	case b.bytes+len(data) > mostInAll:
		b.missed = append(b.missed, fmt.Sprintf("%s: it has %d MiB, and the archive may have %d MiB in all and has %d MiB",
			name, len(data)>>20, mostInAll>>20, b.bytes>>20))
		return
	}
	b.bytes += len(data)
	b.files[name] = data
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// safePath keeps a path below the archive's folder, whatever the names in it are. Two names that differ stay two.
func safePath(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		safe := strings.TrimLeft(unsafe.ReplaceAllString(part, "_"), ".")
		if safe == "" {
			safe = "_"
		}
		if len(safe) > longestName {
			safe = safe[:longestName]
		}
		if safe != part {
			safe += fmt.Sprintf("-%08x", crc32.ChecksumIEEE([]byte(part)))
		}
		parts = append(parts, safe)
	}
	return path.Join(root, path.Join(parts...))
}
