"""The offline model of lessons: facts out of any material, and a narration out of facts, by rules."""
