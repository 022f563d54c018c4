"""What a site's files say of where its hosts are: from text to locations, a module per form."""
