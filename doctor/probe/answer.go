package probe

import (
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// answerVersion is that of the form. A pod of another version of ccmadm may have another one.
	answerVersion = 1
	// mostKept is what a kubelet keeps of what a container leaves behind, in bytes; mostBytes is less.
	mostKept, mostBytes = 4096, 4000
	// mostError is how much of an error is kept, in bytes.
	mostError = 120
)

// Encode is the answer in at most 4000 bytes: texts of errors go first where it would be longer, then whole failures, which are
// counted.
func (a Answer) Encode() ([]byte, error) {
	failed := make([]Failure, len(a.Failed))
	copy(failed, a.Failed)
	for i := range failed {
		if len(failed[i].Error) > mostError {
			failed[i].Error = failed[i].Error[:mostError]
		}
	}
	a.Failed = failed
	data, err := json.Marshal(a)
	if err == nil && len(data) > mostBytes {
		for i := range failed {
			failed[i].Error = ""
		}
		data, err = json.Marshal(a)
	}
	for err == nil && len(data) > mostBytes {
		if len(a.Failed) == 0 {
			return nil, fmt.Errorf("encode the answer: %d bytes are more than %d", len(data), mostBytes)
		}
		a.Failed, a.Cut = a.Failed[:len(a.Failed)-1], a.Cut+1
		data, err = json.Marshal(a)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return data, nil
}

// Decode reads what Encode wrote, of a pod that was given asked targets. What it refuses is no answer of this version: a kubelet may
// report anything.
func Decode(data []byte, asked int) (*Answer, error) {
	if len(data) == 0 {
		return nil, errors.New("read the pod's answer: it has left none")
	}
	if len(data) > mostKept {
		return nil, fmt.Errorf("read the pod's answer: %d bytes are more than the %d that a kubelet keeps", len(data), mostKept)
	}
	var a Answer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("read the pod's answer: %w", err)
	}
	if a.Version != answerVersion {
		return nil, fmt.Errorf("read the pod's answer: want version %d of it, got %d: the image is that of another ccmadm",
			answerVersion, a.Version)
	}
	if a.Asked != asked || a.Cut < 0 || len(a.Failed)+a.Cut > asked || a.MTU < 0 || a.Largest < 0 {
		return nil, fmt.Errorf("read the pod's answer: want %d targets, got %d, with %d and %d more without an answer",
			asked, a.Asked, len(a.Failed), a.Cut)
	}
	seen := map[int]bool{}
	for _, f := range a.Failed {
		if f.Target < 0 || f.Target >= asked || seen[f.Target] {
			return nil, fmt.Errorf("read the pod's answer: target %d is none of %d, or is there twice", f.Target, asked)
		}
		seen[f.Target] = true
	}
	return &a, nil
}
