//go:build pkcs11 && cgo

package pkcs11

import (
	"fmt"

	p11 "github.com/miekg/pkcs11"
)

// connection is a session on the token in which the key can be used.
type connection struct {
	session p11.SessionHandle
	key     p11.ObjectHandle
	kind    *kind
	// always is set if the token wants the PIN for each signature.
	always bool
	// token tells the token from others, and generation is that of the module.
	token      string
	generation int
}

// connect opens a session, logs in and finds the key. The caller holds the module's lock.
func (k *Key) connect() error {
	lib := k.module.lib
	slot, token, err := k.find()
	if err != nil {
		return err
	}
	on := &connection{token: named(token), generation: k.module.generation}
	if on.session, err = lib.OpenSession(slot, p11.CKF_SERIAL_SESSION); err != nil {
		return failed("opening a session", err)
	}
	k.on = on
	err = k.login(token, on.session)
	if err == nil {
		err = k.take()
	}
	if err != nil {
		k.disconnect()
	}
	return err
}

// disconnect ends the session, if one is open.
func (k *Key) disconnect() {
	if k.on != nil && k.on.generation == k.module.generation {
		// A session that was lost cannot be closed, and need not be.
		_ = k.module.lib.CloseSession(k.on.session)
	}
	k.on = nil
}

// find finds the slot of the token, which must be the only one of that name.
func (k *Key) find() (slot uint, token p11.TokenInfo, err error) {
	lib := k.module.lib
	slots, err := lib.GetSlotList(true)
	if err != nil {
		return 0, token, failed("listing the slots", err)
	}
	found := 0
	for _, s := range slots {
		info, err := lib.GetTokenInfo(s)
		if err != nil || info.Flags&p11.CKF_TOKEN_INITIALIZED == 0 {
			continue // it is being taken out, or is none of ours
		}
		if k.uri.names(info) {
			slot, token = s, info
			found++
		}
	}
	switch found {
	case 0:
		return 0, token, fmt.Errorf("%w: none of %d slots has it", ErrAway, len(slots))
	case 1:
		return slot, token, nil
	}
	return 0, token, fmt.Errorf("%w: %d tokens have the same name: give the serial number of one", ErrKey, found)
}

// names reports whether the URI names a token.
func (u URI) names(t p11.TokenInfo) bool {
	same := func(want, have string) bool { return want == "" || want == have }
	return same(u.Token, t.Label) && same(u.Serial, t.SerialNumber) && same(u.Manufacturer, t.ManufacturerID) && same(u.Model, t.Model)
}

// take finds the private key, and checks that it may be used.
func (k *Key) take() error {
	on := k.on
	template := []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PRIVATE_KEY), p11.NewAttribute(p11.CKA_TOKEN, true)}
	if k.uri.Object != "" {
		template = append(template, p11.NewAttribute(p11.CKA_LABEL, k.uri.Object))
	}
	if k.uri.ID != "" {
		template = append(template, p11.NewAttribute(p11.CKA_ID, k.uri.ID))
	}
	found, err := k.objects(template)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("%w: there is no private key of that name", ErrKey)
	case len(found) > 1:
		return fmt.Errorf("%w: several private keys have that name: give the id of one", ErrKey)
	}
	on.key = found[0]
	if err := k.guarded(); err != nil {
		return err
	}
	on.kind, err = k.kindOf(on.key)
	return err
}

// guarded checks that the token does not give the private key away.
func (k *Key) guarded() error {
	for _, must := range []struct {
		attribute uint
		value     bool
		means     string
	}{
		{p11.CKA_SENSITIVE, true, "sensitive (CKA_SENSITIVE)"},
		{p11.CKA_EXTRACTABLE, false, "extractable (CKA_EXTRACTABLE)"},
		{p11.CKA_SIGN, true, "allowed to sign (CKA_SIGN)"},
	} {
		have, known, err := k.truth(must.attribute)
		switch {
		case err != nil:
			return err
		case !known:
			return fmt.Errorf("%w: the token does not say whether the private key is %s", ErrKey, must.means)
		case have && !must.value:
			return fmt.Errorf("%w: the private key is %s", ErrKey, must.means)
		case !have && must.value:
			return fmt.Errorf("%w: the private key is not %s", ErrKey, must.means)
		}
	}
	var err error
	k.on.always, _, err = k.truth(p11.CKA_ALWAYS_AUTHENTICATE)
	return err
}

// truth reads a boolean attribute of the private key, and reports whether the token knows
// it.
func (k *Key) truth(attribute uint) (value, known bool, err error) {
	values, err := k.attributes(k.on.key, attribute)
	switch {
	case is(err, p11.CKR_ATTRIBUTE_TYPE_INVALID):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	switch v := values[0]; {
	case len(v) == 0:
		return false, false, nil
	case len(v) == 1 && v[0] <= 1:
		return v[0] == 1, true, nil
	}
	return false, false, fmt.Errorf("%w: the attribute 0x%X of the private key is not a boolean", ErrKey, attribute)
}

// attributes reads attributes of an object.
func (k *Key) attributes(object p11.ObjectHandle, names ...uint) ([][]byte, error) {
	template := make([]*p11.Attribute, len(names))
	for i, name := range names {
		template[i] = p11.NewAttribute(name, nil)
	}
	found, err := k.module.lib.GetAttributeValue(k.on.session, object, template)
	if err != nil {
		return nil, failed("reading the attributes of a key", err)
	}
	values := make([][]byte, len(names))
	for i := range min(len(values), len(found)) {
		values[i] = found[i].Value
	}
	return values, nil
}

// maxObjects bounds the objects of one name that are looked at.
const maxObjects = 16

// objects returns the objects that match a template.
func (k *Key) objects(template []*p11.Attribute) ([]p11.ObjectHandle, error) {
	lib, session := k.module.lib, k.on.session
	if err := lib.FindObjectsInit(session, template); err != nil {
		return nil, failed("looking for a key", err)
	}
	var found []p11.ObjectHandle
	var err error
	for len(found) < maxObjects {
		var more []p11.ObjectHandle
		if more, _, err = lib.FindObjects(session, maxObjects-len(found)); err != nil || len(more) == 0 {
			break
		}
		found = append(found, more...)
	}
	if end := lib.FindObjectsFinal(session); err == nil {
		err = end
	}
	return found, failed("looking for a key", err)
}
