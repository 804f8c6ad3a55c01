import { part } from './part.ts'

/** What stands around every place of the application. */
export const shell = part('shell', {
  skip: 'Skip to the page',
  visitors: { '=1': 'Only you are here now', other: '{count} people here now' },
  burning: { '=1': '1 page burns here', other: '{count} pages burn here' },
  colours: 'Colours: {theme}',
  changeColours: 'Colours: {theme}. Change',
  system: 'as the system',
  light: 'light',
  dark: 'dark',
  lost: 'The connection to the server is lost. What this tab holds stays here.',
  tryingIn: 'Trying again in {wait}.',
  trying: 'Trying again…',
  partMissing: 'A part of this application could not be fetched. What this tab holds goes on burning; ' +
    'if the server is back, opening the link in another tab shows it.',
  nowhereTitle: 'Nothing here · Watchfire',
  nowhere: 'Nothing burns here',
  nowhereWhy: 'There is no {path} on this server. Links to pages look like {example}.',
  lightOne: 'Light a page',
})
