package record

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
)

// TestRefuseContradictions_Operations: each operation has its own words, and only init knows of a record without an image.
func TestRefuseContradictions_Operations(t *testing.T) {
	rec := &state.Record{Configuration: config.CloudConfiguration{ClusterName: "a"}}
	other := config.CloudConfiguration{ClusterName: "b"}
	image := config.CloudConfiguration{ControllerManager: config.ControllerManager{Image: "example.org/ccm:v1"}}
	for _, tt := range []struct {
		by         Contradicted
		want, hint string
		refused    bool // an image
	}{
		{InitContradicted(), "init with clusterName", "`ccmadm apply` changes those that can be changed", false},
		{JoinContradicted(), "join with clusterName", "joining machines take it from the record", true},
		{changeContradicted(), "apply with clusterName", "nothing changes the name of a cluster", true},
	} {
		var known *finding.Error
		err := RefuseContradictions(tt.by, other, rec)
		if !errors.As(err, &known) || !strings.HasPrefix(err.Error(), tt.want) || !strings.Contains(known.Hint, tt.hint) {
			t.Errorf("got %v, want %q and the hint %q", err, tt.want, tt.hint)
		}
		if err := RefuseContradictions(tt.by, image, rec); (err != nil) != tt.refused {
			t.Errorf("%s with an image: got %v, want refused: %t", tt.by.Command, err, tt.refused)
		}
	}
}
