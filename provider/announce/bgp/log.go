package bgp

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// logHandler passes GoBGP's log on, and keeps the reasons for which a session does not come about: GoBGP v4.8.0 has
// them nowhere else (pkg/server/fsm.go, connectLoop and outgoingConnManager.run).
type logHandler struct {
	slog.Handler
	causes  *causes
	address string // of the router that this is about
}

var _ slog.Handler = (*logHandler)(nil)

func newLogger(log logr.Logger, causes *causes) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(slog.LevelDebug)
	return slog.New(&logHandler{Handler: logr.ToSlogHandler(log), causes: causes}), level
}

// Enabled is always true, as a failure to connect is logged at the level of debugging.
func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps the cause in a record, if there is one.
func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if h.address != "" {
		h.note(record)
	}
	// The way to end BFD is to stop the server a second time.
	if !h.Handler.Enabled(ctx, record.Level) || record.Message == "failed to stop BGP server" {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h *logHandler) note(record slog.Record) {
	values := map[string]slog.Value{}
	record.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		return true
	})
	switch record.Message {
	case "failed to connect":
		h.causes.set(h.address, cause{kind: noConnect, detail: values["Error"].String()})
	case "outgoing connection IO error":
		h.causes.set(h.address, cause{kind: hungUp})
	case "sent notification":
		if values["Code"].Kind() != slog.KindInt64 {
			return
		}
		switch values["Code"].Int64() {
		case bgp.BGP_ERROR_OPEN_MESSAGE_ERROR:
			if values["Subcode"].Int64() == bgp.BGP_ERROR_SUB_BAD_PEER_AS {
				h.causes.set(h.address, cause{kind: otherASN})
			}
		case bgp.BGP_ERROR_FSM_ERROR: // a notification in place of the router's OPEN
			h.causes.set(h.address, cause{kind: rejected})
		}
	}
}

// WithAttrs remembers the router, which GoBGP gives as Key.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "Key" {
			next.address = a.Value.String()
		}
	}
	return &next
}

// WithGroup is what [slog.Handler] says.
func (h *logHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithGroup(name)
	return &next
}
