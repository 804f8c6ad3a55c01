import { part } from './part.ts'

/** One page: who has it, how it loads, and how to share it. */
export const page = part('page', {
  who: 'Who has this page',
  finding: 'Connecting to the others…',
  unconnected: 'No connection to other people',
  watching: { '=0': 'Only you are here', '=1': 'Only you are here', other: '{count} people are watching' },
  watchingNodes: {
    '=0': 'Only you are here, and {nodes}',
    '=1': 'Only you are here, and {nodes}',
    other: '{count} people are watching, and {nodes}',
  },
  nobody: 'Nobody has this page right now.',
  lastAvailable: 'Somebody last had the whole page {ago}.',
  parts: {
    '=1': 'Nobody has the whole page: 1 tab has a part.',
    other: 'Nobody has the whole page: {count} tabs have parts.',
  },
  partsWith: 'Nobody has the whole page. Held in part by {who}.',
  onlyYou: 'Only you have this page. When you close this tab, it is gone.',
  onlyYouFull: 'Only you have the whole page. Keep this tab open until somebody else has it all.',
  held: { '=1': 'Held by 1 tab.', other: 'Held by {count} tabs.' },
  heldOurs: { '=1': 'Held by 1 tab: yours.', other: 'Held by {count} tabs, including yours.' },
  heldBy: 'Held by {who}.',
  heldByOurs: 'Held by {who}, including your tab.',
  heldByParts: 'Held by {who}; {parts}.',
  heldByOursParts: 'Held by {who}, including your tab; {parts}.',
  heldParts: {
    '=1': 'Held by 1 tab; {parts}.',
    other: 'Held by {count} tabs; {parts}.',
  },
  heldOursParts: {
    '=1': 'Held by 1 tab, yours; {parts}.',
    other: 'Held by {count} tabs, including yours; {parts}.',
  },
  onlyPart: { '=1': '1 has only a part', other: '{count} have only parts' },
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
  codeTooLong: 'The link is too long for a QR code. Copy it instead.',
  details: 'Connections',
  keep: 'Keep sharing this page',
  keepMeans: 'This tab shares the page while you look at others.',
  awake: 'Keep the screen on',
  asleep: 'Your phone stops sharing when its screen goes off or you switch to another app. ' + 'Sharing continues when you come back.',
  hidden: 'The browser stopped this tab in the background. Sharing continues now.',
  stopped: 'The browser stopped this tab in the background. Sharing continues when it is connected again.',
  it: 'the page',
  looking: 'Looking for people who have {name}…',
  fetching: 'Fetching {name}',
  lastLeft: 'The last person who had it has left',
  waitingFor: 'Waiting for somebody who has {name}',
  loading: 'Loading',
  soFar: 'Loaded so far',
  arrived: '{percent} · {size} of {total}',
  arrivedFrom: '{percent} · {size} of {total}, {people}',
  arrivedSome: '{size}, {people}',
  promise: 'Keep this tab open: the page appears as soon as somebody who has it comes back.',
  promiseKept: '{size} has arrived and is kept here. {promise}',
  promiseKeptOf: '{size} of {total} has arrived and is kept here. {promise}',
  private: 'Private: only people with the whole link can read this. Others can share it without the key, but not read it.',
  keyless: 'This page is private, and this link has no key',
  keylessWhy: 'The whole link has #key= and 43 more characters in it. Ask the person who sent you the link ' + 'for the whole one.',
  closed: 'This page cannot be opened',
  keepUnread: 'You can still keep sharing it, without reading it.',
  key: 'The whole link, or its key',
  open: 'Open it',
  noKey: 'There is no key in this. Paste the whole link.',
  cannot: 'This page cannot be shown',
  denied: 'The operator of this server has blocked this page.',
  pageFull: 'This page is open in as many tabs as the server allows. Try again later.',
  pagesFull: 'As many pages are open as the server allows. Try again later.',
  pagesOfAddressFull: 'Your network address has as many pages open as the server allows. Close one and reload.',
  rejected: 'Others cannot load the page from this tab: {reason}',
  report: 'Report this page',
  own: 'Light a page of your own',
  aPage: 'A page',
  tab: '{name} · Watchfire',
  tabPercent: '{percent} {name} · Watchfire',
  tabUnavailable: 'Unavailable: {name} · Watchfire',
  tabWatching: { other: '({count}) {name} · Watchfire' },
})

/** The server's reason for rejecting a page, as a sentence. An unknown reason is returned unchanged. */
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
