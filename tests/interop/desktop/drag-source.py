# A window at the upper left corner, out of which the files of the arguments (as URIs) can be dragged.

import sys

import gi

gi.require_version("Gtk", "3.0")
gi.require_version("Gdk", "3.0")
from gi.repository import Gdk, Gtk  # noqa: E402

window = Gtk.Window(type=Gtk.WindowType.POPUP)
window.move(0, 0)
window.set_default_size(100, 100)
box = Gtk.EventBox()
box.drag_source_set(Gdk.ModifierType.BUTTON1_MASK, [], Gdk.DragAction.COPY)
box.drag_source_add_uri_targets()
box.connect("drag-data-get", lambda _widget, _context, data, *_: data.set_uris(sys.argv[1:]))
window.add(box)
window.show_all()
print("ready", flush=True)
Gtk.main()
