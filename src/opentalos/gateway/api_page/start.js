SwaggerUIBundle({
  url: "/rest/v1/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  validatorUrl: null,
});
