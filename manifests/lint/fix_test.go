package lint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// fixed runs Fix, which has to end.
func fixed(t *testing.T, check func() ([]finding.Finding, error)) (done, left []finding.Finding) {
	t.Helper()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done, left, err = lint.Fix(check)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("Fix does not end")
	}
	if err != nil {
		t.Fatal(err)
	}
	return done, left
}

// A fix after which the same is found is refused, whatever the rule thinks of it, and what others fix meanwhile counts.
func TestFix_WithoutEffect(t *testing.T) {
	rounds := 0
	done, left := fixed(t, func() ([]finding.Finding, error) {
		rounds++
		vain := finding.ID("B11").New("Deployment/a", "the same")
		vain.Fix = func() error { return nil }
		list := []finding.Finding{vain, vain}
		if rounds == 1 {
			other := finding.ID("B2").New("Deployment/a", "nothing tolerates it")
			other.Fix = func() error { return nil }
			list = append(list, other)
		}
		return list, nil
	})
	if len(done) != 1 || done[0].ID != "B2" {
		t.Errorf("fixed %v, want B2 alone", done)
	}
	if len(left) != 2 || left[0].Fixable() || !strings.Contains(left[1].Do, "by hand, since --fix cannot: ") {
		t.Errorf("left %+v, want B11 twice, without a fix", left)
	}
}

// A fix that the text does not allow is not tried twice.
func TestFix_Refused(t *testing.T) {
	tried := 0
	_, left := fixed(t, func() ([]finding.Finding, error) {
		f := finding.ID("B2").New("Deployment/a", "nothing tolerates it")
		f.Fix = func() error { tried++; return errors.New("an anchor") }
		return []finding.Finding{f}, nil
	})
	if tried != 1 || len(left) != 1 || !strings.HasSuffix(left[0].Do, ": an anchor") {
		t.Errorf("tried %d times, left %+v", tried, left)
	}
}
