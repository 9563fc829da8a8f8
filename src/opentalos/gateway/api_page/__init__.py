"""The page at ``/docs``: REST's OpenAPI document in Swagger UI, with forms to try calls."""
