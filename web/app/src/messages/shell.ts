import { part } from './part.ts'

/** The header, the banner, and what every view can show. */
export const shell = part('shell', {
  skip: 'Skip to content',
  visitors: { '=1': 'Only you are here now', other: '{count} people here now' },
  open: { '=1': '1 page open in this tab', other: '{count} pages open in this tab' },
  changeColours: 'Colours: {theme}. Change',
  system: 'like the system',
  light: 'light',
  dark: 'dark',
  lost: 'The connection to the server is lost. The pages in this tab stay here.',
  tryingIn: 'Trying again in {wait}.',
  trying: 'Trying again…',
  originRefused: 'This server does not accept connections from {origin}.',
  allowOrigin: 'The operator can allow it: set server.public_url, or add it to socket.check_origin.',
  partMissing:
    'A part of this app could not be loaded. Keep this tab open: its pages stay shared. ' +
    'When the server is back, open the link in another tab.',
})
