package manifests

import "testing"

func TestConfigHash(t *testing.T) {
	base := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	tests := []struct {
		name  string
		files map[string][]byte
		same  bool
	}{
		{
			name:  "the same content",
			files: map[string][]byte{"b": []byte("2"), "a": []byte("1")},
			same:  true,
		},
		{
			name:  "another value",
			files: map[string][]byte{"a": []byte("1"), "b": []byte("3")},
			same:  false,
		},
		{
			name:  "values exchanged",
			files: map[string][]byte{"a": []byte("2"), "b": []byte("1")},
			same:  false,
		},
		{
			name:  "content that moved to another file",
			files: map[string][]byte{"a": []byte("12"), "b": nil},
			same:  false,
		},
		{
			name: "nothing",
			same: false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if same := ConfigHash(base) == ConfigHash(tt.files); same != tt.same {
				t.Errorf("same hash: %t, want %t", same, tt.same)
			}
		})
	}
}
