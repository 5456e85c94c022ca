IBI_ARCHIVE_ADDRESS = "bibliography.example.org"
IBI_ARCHIVE_IP = "203.0.113.7"
IBI_DATABASE_URI = "sqlite:////srv/bibliography/ibi.sqlite"
IBI_FILES_FOLDER = "/srv/bibliography/files"
IBI_BASE_TEMPLATE = "ibi_layout.html"
IBI_CONTENT_SECURITY_POLICY = ""  # as the pages of Kerko
