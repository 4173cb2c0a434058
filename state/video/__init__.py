"""Videos of many scenes: projects, scenes, plans and executions."""
