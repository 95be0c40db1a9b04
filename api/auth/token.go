package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// tokenPrefix lets scanners of repositories find tokens.
const tokenPrefix = "halite_"

// tokenBytes is the entropy of a token. It is so large that one round of SHA-256 protects the token.
const tokenBytes = 32

// NewToken makes a token, and its entry in the list tokens of an access file. Without tenants it acts for none. The error
// describes the faults of the rights.
func NewToken(name string, scopes []string, match string, tenants ...string) (token, entry string, err error) {
	secret := make([]byte, tokenBytes)
	rand.Read(secret) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	t := tokenEntry{SHA256: hex.EncodeToString(hash[:]), rights: rights{Name: name, Scopes: scopes, Match: match}}
	if len(tenants) == 1 {
		t.Tenant = tenants[0]
	} else {
		t.Tenants = tenants
	}
	if _, err := t.principal(entryAt{list: "tokens", tenants: true}); err != nil {
		return "", "", err
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(accessDocument{Tokens: []tokenEntry{t}}); err != nil {
		return "", "", fmt.Errorf("write the entry: %w", err)
	}
	return token, text.String(), nil
}
