package activities_test

import (
	"testing"

	"chimera.ai/engine/internal/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }
