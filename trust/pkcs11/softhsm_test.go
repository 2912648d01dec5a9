//go:build pkcs11 && cgo

package pkcs11

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"
	"github.com/stretchr/testify/require"
)

// The tests run on SoftHSM 2, whose tokens are folders. They do not run in parallel: a
// process has one configuration of SoftHSM.

const (
	userPIN  = "1234"
	adminPIN = "12345678"
)

// softhsm returns the path of SoftHSM's module, and gives it an empty folder of tokens.
func softhsm(t *testing.T) (modulePath, tokens string) {
	t.Helper()
	places := []string{
		"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/pkcs11/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so",
		"/usr/local/lib/softhsm/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so",
	}
	i := slices.IndexFunc(places, func(p string) bool { _, err := os.Stat(p); return err == nil })
	require.GreaterOrEqual(t, i, 0, "SoftHSM is missing: make setup installs it (package softhsm2)")
	dir := t.TempDir()
	tokens = filepath.Join(dir, "tokens")
	require.NoError(t, os.Mkdir(tokens, 0o700))
	file := filepath.Join(dir, "softhsm2.conf")
	require.NoError(t, os.WriteFile(file, []byte("directories.tokendir = "+tokens+"\nobjectstore.backend = file\nlog.level = ERROR\n"), 0o600))
	t.Setenv("SOFTHSM2_CONF", file)
	return places[i], tokens
}

// admin does something with the module as its administrator would. No key is open.
func admin(t *testing.T, modulePath string, do func(*p11.Ctx)) {
	t.Helper()
	ctx := p11.New(modulePath)
	require.NotNil(t, ctx)
	require.NoError(t, ctx.Initialize())
	defer func() { require.NoError(t, ctx.Finalize()) }()
	do(ctx)
}

// newToken makes a token, and returns its folder.
func newToken(t *testing.T, modulePath, tokens, label string) (folder string) {
	t.Helper()
	before, err := os.ReadDir(tokens)
	require.NoError(t, err)
	admin(t, modulePath, func(ctx *p11.Ctx) {
		slots, err := ctx.GetSlotList(true)
		require.NoError(t, err)
		i := slices.IndexFunc(slots, func(slot uint) bool {
			info, err := ctx.GetTokenInfo(slot)
			return err == nil && info.Flags&p11.CKF_TOKEN_INITIALIZED == 0
		})
		require.GreaterOrEqual(t, i, 0)
		require.NoError(t, ctx.InitToken(slots[i], adminPIN, label))
		session, err := ctx.OpenSession(slots[i], p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
		require.NoError(t, err)
		require.NoError(t, ctx.Login(session, p11.CKU_SO, adminPIN))
		require.NoError(t, ctx.InitPIN(session, userPIN))
	})
	after, err := os.ReadDir(tokens)
	require.NoError(t, err)
	for _, e := range after {
		if !slices.ContainsFunc(before, func(b os.DirEntry) bool { return b.Name() == e.Name() }) {
			return filepath.Join(tokens, e.Name())
		}
	}
	t.Fatal("the token has no folder")
	return ""
}

// spec is a pair of keys to make. Its zero values are those of a key that Open accepts.
type spec struct {
	curve       []byte
	label, id   string
	extractable bool
	plain       bool // not sensitive
	mute        bool // may not sign
	always      bool // wants the PIN for each signature
	lonely      bool // without the public half
}

var (
	ed25519Curve = []byte{0x06, 0x03, 0x2b, 0x65, 0x70}
	p256Curve    = []byte{0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}
	p384Curve    = []byte{0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22}
)

// makeKeys makes keys on a token.
func makeKeys(t *testing.T, modulePath, label string, specs ...spec) {
	t.Helper()
	admin(t, modulePath, func(ctx *p11.Ctx) {
		session, err := ctx.OpenSession(slotOf(t, ctx, label), p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
		require.NoError(t, err)
		require.NoError(t, ctx.Login(session, p11.CKU_USER, userPIN))
		for _, s := range specs {
			var keyType uint = p11.CKK_EC
			var mechanism uint = p11.CKM_EC_KEY_PAIR_GEN
			if string(s.curve) == string(ed25519Curve) {
				keyType, mechanism = keyEdwards, 0x1055 // CKM_EC_EDWARDS_KEY_PAIR_GEN
			}
			_, _, err = ctx.GenerateKeyPair(session, []*p11.Mechanism{p11.NewMechanism(mechanism, nil)},
				[]*p11.Attribute{
					p11.NewAttribute(p11.CKA_KEY_TYPE, keyType), p11.NewAttribute(p11.CKA_TOKEN, !s.lonely), p11.NewAttribute(p11.CKA_VERIFY, true),
					p11.NewAttribute(p11.CKA_EC_PARAMS, s.curve), p11.NewAttribute(p11.CKA_LABEL, s.label), p11.NewAttribute(p11.CKA_ID, s.id),
				},
				[]*p11.Attribute{
					p11.NewAttribute(p11.CKA_KEY_TYPE, keyType), p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_PRIVATE, true),
					p11.NewAttribute(p11.CKA_SIGN, !s.mute), p11.NewAttribute(p11.CKA_SENSITIVE, !s.plain), p11.NewAttribute(p11.CKA_EXTRACTABLE, s.extractable),
					p11.NewAttribute(p11.CKA_ALWAYS_AUTHENTICATE, s.always),
					p11.NewAttribute(p11.CKA_LABEL, s.label), p11.NewAttribute(p11.CKA_ID, s.id),
				})
			require.NoError(t, err, s.label)
		}
	})
}

func slotOf(t *testing.T, ctx *p11.Ctx, label string) uint {
	t.Helper()
	slots, err := ctx.GetSlotList(true)
	require.NoError(t, err)
	for _, slot := range slots {
		if info, err := ctx.GetTokenInfo(slot); err == nil && info.Label == label {
			return slot
		}
	}
	t.Fatalf("there is no token %s", label)
	return 0
}

// withPIN returns what Open asks for the PIN.
func withPIN(pin string) func() (string, error) {
	return func() (string, error) { return pin, nil }
}

// faulty is a module that fails as a test says, and counts logins.
type faulty struct {
	library
	// before is called with the name of a call; if it returns an error, the module is not
	// called.
	before func(call string) error
	// flags are added to those of every token.
	flags uint
	// alter changes signatures.
	alter func(sig []byte)
	// values replace those of attributes; nil means that the module does not know one.
	values map[uint][]byte

	mu     sync.Mutex
	logins int
}

func (f *faulty) fail(call string) error {
	if f.before == nil {
		return nil
	}
	return f.before(call)
}

func (f *faulty) Initialize(o ...p11.InitializeOption) error {
	if err := f.fail("Initialize"); err != nil {
		return err
	}
	return f.library.Initialize(o...)
}

func (f *faulty) Finalize() error {
	err := f.library.Finalize()
	_ = f.fail("Finalize")
	return err
}

func (f *faulty) GetSlotList(present bool) ([]uint, error) {
	if err := f.fail("GetSlotList"); err != nil {
		return nil, err
	}
	return f.library.GetSlotList(present)
}

func (f *faulty) GetTokenInfo(slot uint) (p11.TokenInfo, error) {
	info, err := f.library.GetTokenInfo(slot)
	info.Flags |= f.flags
	return info, err
}

func (f *faulty) OpenSession(slot, flags uint) (p11.SessionHandle, error) {
	if err := f.fail("OpenSession"); err != nil {
		return 0, err
	}
	return f.library.OpenSession(slot, flags)
}

func (f *faulty) Login(session p11.SessionHandle, user uint, pin string) error {
	f.mu.Lock()
	f.logins++
	f.mu.Unlock()
	if err := f.fail("Login"); err != nil {
		return err
	}
	return f.library.Login(session, user, pin)
}

func (f *faulty) GetAttributeValue(session p11.SessionHandle, object p11.ObjectHandle, a []*p11.Attribute) ([]*p11.Attribute, error) {
	found, err := f.library.GetAttributeValue(session, object, a)
	for _, attribute := range found {
		value, ok := f.values[attribute.Type]
		switch {
		case !ok:
		case value == nil:
			return nil, p11.Error(p11.CKR_ATTRIBUTE_TYPE_INVALID)
		default:
			attribute.Value = value
		}
	}
	return found, err
}

func (f *faulty) SignInit(session p11.SessionHandle, m []*p11.Mechanism, key p11.ObjectHandle) error {
	if err := f.fail("SignInit"); err != nil {
		return err
	}
	return f.library.SignInit(session, m, key)
}

func (f *faulty) Sign(session p11.SessionHandle, message []byte) ([]byte, error) {
	if err := f.fail("Sign"); err != nil {
		return nil, err
	}
	sig, err := f.library.Sign(session, message)
	if err == nil && f.alter != nil {
		f.alter(sig)
	}
	return sig, err
}

// failing returns a [faulty.before] that makes one call fail, as often as times says.
func failing(name string, code p11.Error, times int) func(call string) error {
	return func(call string) error {
		if call != name || times == 0 {
			return nil
		}
		times--
		return code
	}
}

// world is a registry of its own, with a clock and modules that may fail.
type world struct {
	registry
	*faulty
	clock time.Time
}

func newWorld() *world {
	w := &world{faulty: new(faulty), clock: time.Unix(1e9, 0)}
	w.registry = registry{
		modules: map[string]*module{},
		load: func(path string) library {
			w.faulty.library = p11.New(path)
			return w.faulty
		},
		now: func() time.Time { return w.clock },
	}
	return w
}

// key opens a key, and closes it with the test.
func (w *world) key(t *testing.T, u URI, pin func() (string, error)) *Key {
	t.Helper()
	k, err := w.open(t.Context(), u.String(), pin)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}
