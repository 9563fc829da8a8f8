"""The console: pages for people below ``/console/``. They do nothing that REST cannot."""
