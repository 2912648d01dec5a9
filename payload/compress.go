package payload

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

const (
	// compressFrom is the size in bytes from which compression is tried: below
	// it, little is gained.
	compressFrom = 512
	// maxOpened bounds what a compressed payload may become, in bytes: no compiled
	// plan is as large.
	maxOpened = 256 << 20
	// maxRatio is more than the format can reach, where a run-length block of 4
	// bytes expands to 128 KiB. A header that claims more is false.
	maxRatio = 40_000

	encodingZstd = "binary/chimera-zstd"
)

// coders are created on first use, since most commands never need them.
var coders = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		panic(fmt.Sprintf("zstd: %v", err)) // the options are constants
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxOpened))
	if err != nil {
		panic(fmt.Sprintf("zstd: %v", err))
	}
	return e, d
})

// shrink compresses b. ok reports that the result is smaller.
func shrink(b []byte) (small []byte, ok bool) {
	if len(b) < compressFrom || len(b) > maxOpened {
		return nil, false
	}
	encoder, _ := coders()
	small = encoder.EncodeAll(b, make([]byte, 0, len(b)/2))
	return small, len(small) < len(b)
}

// grow undoes shrink. The result has at most limit bytes, and grow allocates memory
// only for what the input can really hold.
func grow(small []byte, limit int) ([]byte, error) {
	var header zstd.Header
	if err := header.Decode(small); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	switch {
	case header.Skippable || !header.HasFCS:
		return nil, errors.New("decompress: the size is not said")
	case header.FrameContentSize > uint64(limit):
		return nil, fmt.Errorf("decompress: %d bytes, over the limit of %d", header.FrameContentSize, limit)
	case header.FrameContentSize/maxRatio > uint64(len(small)):
		return nil, errors.New("decompress: the size that is said cannot be")
	}
	_, decoder := coders()
	b, err := decoder.DecodeAll(small, make([]byte, 0, header.FrameContentSize))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if uint64(len(b)) != header.FrameContentSize {
		return nil, errors.New("decompress: the size is not the one that is said")
	}
	return b, nil
}

// compress returns a payload whose data is p, compressed, or p itself if that is
// not larger.
func compress(p *commonpb.Payload) (*commonpb.Payload, error) {
	b, err := encode(p)
	if err != nil {
		return nil, err
	}
	small, ok := shrink(b)
	if !ok {
		return p, nil
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingZstd)},
		Data:     small,
	}, nil
}

// decompress undoes compress, once.
func decompress(p *commonpb.Payload, limit int) (*commonpb.Payload, error) {
	if encodingOf(p) != encodingZstd {
		return p, nil
	}
	b, err := grow(p.GetData(), limit)
	if err != nil {
		return nil, err
	}
	return decode(b)
}

func encodingOf(p *commonpb.Payload) string {
	return string(p.GetMetadata()[converter.MetadataEncoding])
}

func encode(p *commonpb.Payload) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	return b, nil
}

func decode(b []byte) (*commonpb.Payload, error) {
	p := new(commonpb.Payload)
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("decode payload: %w", err)
	}
	return p, nil
}
