"""REST routes, replies and the command of `scene_edit`."""
