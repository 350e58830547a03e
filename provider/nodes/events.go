package nodes

import (
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/ccmadm/ccmadm/api/finding"
)

// repeatAfter is when an Event that does not change is written again.
const repeatAfter = 10 * time.Minute

// events writes Events on Nodes: what is new, and what is still so after a while. Upstream writes none, and asks again with
// every change of a Node. Warnings that take turns are written once each, and not at every turn.
type events struct {
	recorder record.EventRecorder
	now      func() time.Time

	mu   sync.Mutex
	last map[event]time.Time // when each was written
}

// event is one that was written.
type event struct {
	about types.UID
	text  string // reason and message
}

func newEvents(recorder record.EventRecorder, now func() time.Time) *events {
	return &events{recorder: recorder, now: now, last: map[event]time.Time{}}
}

// warn writes a Warning on the Node, unless the same was written lately. What a kubelet says may be in the message.
func (e *events) warn(node *corev1.Node, reason, message string) {
	message = shorten(finding.Clean(message))
	if e.due(node.UID, reason+" "+message) {
		e.recorder.Event(node, corev1.EventTypeWarning, reason, message)
	}
}

// maxMessage is far beyond any message of ours: a provider ID that a kubelet wrote may be long.
const maxMessage = 1000

func shorten(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}

// due reports whether an Event is to be written, and remembers it.
func (e *events) due(about types.UID, text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, this := e.now(), event{about, text}
	if at, ok := e.last[this]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	maps.DeleteFunc(e.last, func(_ event, at time.Time) bool { return now.Sub(at) >= repeatAfter })
	e.last[this] = now
	return true
}
