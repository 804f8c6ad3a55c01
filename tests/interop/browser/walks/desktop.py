"""The notification service of a desktop, on the session bus: prints each notification, and clicks the latest for each line read."""

import sys

import dbus
import dbus.service
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

NAME = "org.freedesktop.Notifications"


class Desktop(dbus.service.Object):
    latest = 0

    @dbus.service.method(NAME, out_signature="as")
    def GetCapabilities(self):
        return ["body", "actions", "persistence"]

    @dbus.service.method(NAME, out_signature="ssss")
    def GetServerInformation(self):
        return ("desktop of the tests", "Watchfire", "1", "1.2")

    @dbus.service.method(NAME, in_signature="susssasa{sv}i", out_signature="u")
    def Notify(self, _app, _replaces, _icon, summary, _body, _actions, _hints, _timeout):
        self.latest += 1
        print(f"shown {summary}", flush=True)
        return self.latest

    @dbus.service.method(NAME, in_signature="u")
    def CloseNotification(self, notification):
        print("closed", flush=True)
        self.NotificationClosed(notification, 3)

    @dbus.service.signal(NAME, signature="us")
    def ActionInvoked(self, notification, action):
        pass

    @dbus.service.signal(NAME, signature="uu")
    def NotificationClosed(self, notification, reason):
        pass


def on_line(_source, _condition):
    if sys.stdin.readline() == "":
        loop.quit()
        return False
    desktop.ActionInvoked(desktop.latest, "default")
    return True


DBusGMainLoop(set_as_default=True)
bus = dbus.SessionBus()
desktop = Desktop(dbus.service.BusName(NAME, bus, do_not_queue=True), "/org/freedesktop/Notifications")
loop = GLib.MainLoop()
GLib.io_add_watch(sys.stdin.fileno(), GLib.IO_IN | GLib.IO_HUP, on_line)
print("ready", flush=True)
loop.run()
