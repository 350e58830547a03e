package diagnosis

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Somebody whom the API server does not know is told so in one wording, whichever question was answered first. Of an
// answer that is taken raw, client-go makes another message.
func TestUnseen_Unauthorized(t *testing.T) {
	for name, err := range map[string]error{
		"an object": apierrors.NewUnauthorized("Unauthorized"),
		"raw":       apierrors.NewGenericServerResponse(http.StatusUnauthorized, "get", schema.GroupResource{}, "", "", 0, true),
	} {
		if got := Unseen(name, err); got.Message != "Unauthorized" || !apierrors.IsUnauthorized(&got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
