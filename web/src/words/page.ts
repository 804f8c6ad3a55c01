import { part } from './part.ts'

/** One page: how its fire stands, and how it comes. */
export const page = part('page', {
  who: 'Who keeps this page',
  finding: 'Finding the others…',
  unmet: 'Nobody can be met here',
  watching: { '=0': 'Only you are here', '=1': 'Only you are here', other: '{count} people are watching' },
  watchingNodes: {
    '=0': 'Only you are here, and {nodes}',
    '=1': 'Only you are here, and {nodes}',
    other: '{count} people are watching, and {nodes}',
  },
  nobody: 'Nobody has this page right now.',
  lastLit: 'Somebody last had all of it {ago}.',
  parts: {
    '=1': 'Nobody has all of it: 1 tab has a part.',
    other: 'Nobody has all of it: {count} tabs have a part.',
  },
  partsWith: 'Nobody has all of it. A part is with {who}.',
  onlyYou: 'You are the only one holding this page: when you close this tab it is gone.',
  onlyYouFull: 'You hold the only full copy: keep this tab open until somebody else has it all.',
  held: { '=1': 'Held by 1 tab.', other: 'Held by {count} tabs.' },
  heldOurs: { '=1': 'Held by 1 tab, yours.', other: 'Held by {count} tabs, yours among them.' },
  heldBy: 'Held by {who}.',
  heldByOurs: 'Held by {who}, your tab among them.',
  heldByParts: 'Held by {who}; {parts}.',
  heldByOursParts: 'Held by {who}, your tab among them; {parts}.',
  heldParts: {
    '=1': 'Held by 1 tab; {parts}.',
    other: 'Held by {count} tabs; {parts}.',
  },
  heldOursParts: {
    '=1': 'Held by 1 tab, yours; {parts}.',
    other: 'Held by {count} tabs, yours among them; {parts}.',
  },
  onlyPart: { '=1': '1 has only part', other: '{count} have only part' },
  from: { '=1': 'from 1 person', other: 'from {count} people' },
  directly: { '=1': 'directly from 1 person', other: 'directly from {count} people' },
  fromWho: 'from {who}',
  andFrom: '{people}, and from {who}',
  partlyDirectly: { other: 'from {count} people, {direct} of them directly' },
  link: 'Link to this page',
  copy: 'Copy link',
  copied: 'Copied',
  share: 'Share…',
  code: 'QR code',
  codeOf: 'QR code of the link',
  codeTooLong: 'The link is too long for a QR code.',
  closer: 'How it travels',
  keep: 'Keep this burning',
  keepMeans: 'It goes on being shared while you look at other places here.',
  awake: 'Keep the screen on',
  asleep: 'Your phone stops sharing when its screen goes off or you turn to another app. ' +
    'It goes on when you come back here.',
  hidden: 'This tab was stopped in the background. It shares again since you came back.',
  it: 'the page',
  looking: 'Looking for who has {name}…',
  fetching: 'Fetching {name}',
  lastLeft: 'The last one who had it has left',
  waitingFor: 'Waiting for somebody who has {name}',
  loading: 'Loading',
  soFar: 'Loaded so far',
  arrived: '{percent} · {size} of {total}',
  arrivedFrom: '{percent} · {size} of {total}, {people}',
  arrivedSome: '{size}, {people}',
  promise: 'Leave this tab open: it lights up by itself as soon as somebody with it comes back.',
  promiseKept: '{size} came before that and is kept here. {promise}',
  promiseKeptOf: '{size} of {total} came before that and is kept here. {promise}',
  sealed: 'Private: only who has the whole link can read this. Whoever keeps it burning without the key sees noise.',
  keyless: 'This page is private, and this link has no key',
  keylessWhy: 'The link that opens it is longer: it has #key= and 43 letters and digits behind it. Ask whoever gave it to you ' +
    'for the whole link.',
  closed: 'This page stays closed',
  holdClosed: 'You can keep this burning all the same, without being able to read it.',
  key: 'The whole link, or its key',
  open: 'Open it',
  noKey: 'There is no key in that.',
  cannot: 'This page cannot be shown',
  denied: 'The operator of this server introduces nobody to one another on this page.',
  pageFull: 'As many people have this page open as the server allows.',
  pagesFull: 'As many pages are open as the server allows.',
  pagesOfAddressFull: 'Your network address has as many pages open as the server allows.',
  unfound: 'Others do not find this tab: {reason}',
  report: 'Report this page',
  own: 'Light a page of your own',
  aPage: 'A page',
  tab: '{name} · Watchfire',
  tabPercent: '{percent} {name} · Watchfire',
  tabDark: 'Dark: {name} · Watchfire',
  tabWatching: { other: '({count}) {name} · Watchfire' },
})

/** What the server refuses a page with, in a sentence; what we do not know, as the server says it. */
export function refusalOf(reason: string): string {
  switch (reason) {
    case 'denied':
      return page('denied')
    case 'page full':
      return page('pageFull')
    case 'too many pages':
      return page('pagesFull')
    case 'too many pages of this address':
      return page('pagesOfAddressFull')
    default:
      return reason
  }
}
