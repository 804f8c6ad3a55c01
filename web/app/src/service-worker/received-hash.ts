/** The hash of the home page's address when there is content from the share sheet. */
export const RECEIVED_HASH = '#received'
/** The same when the content is lost: there was no service worker, or it could not store the content. The server redirects to it too. */
export const NOT_RECEIVED_HASH = '#received-nothing'
