import { authorization, refused, tenant } from './session';

/** ApiError is a response with an error. Without a response, status is 0. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly type: string, message: string) {
    super(message);
  }
}

/** ApiResponse is the data and the warnings of a response without an error. */
export interface ApiResponse<T> {
  data: T;
  warnings: string[];
  infos: string[];
}

export type Params = Record<string, string | number | string[] | undefined>;

function form(params: Params): URLSearchParams {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== '') out.append(name, String(one));
    }
  }
  return out;
}

/** send fetches a path of this server as the user who has logged in. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  // This header keeps the browser from opening its own log-in dialog.
  headers.set('X-Requested-With', 'halite');
  if (authorization.value) headers.set('Authorization', authorization.value);
  if (tenant.value) headers.set('X-Scope-OrgID', tenant.value);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, 'network', 'The server does not answer. Is it running, and can this browser reach it?');
  }
  if (response.status === 401) {
    const message = await errorOf(response.clone());
    refused.value = message.message;
  }
  return response;
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const body = JSON.parse(text);
    if (typeof body.error === 'string') return new ApiError(response.status, body.errorType ?? '', body.error);
  } catch {
    // Not JSON: the text itself is the message.
  }
  return new ApiError(response.status, '', text.slice(0, 500) || `The server answered ${response.status}.`);
}

async function parseResponse<T>(response: Response): Promise<ApiResponse<T>> {
  if (!response.ok) throw await errorOf(response);
  if (response.status === 204) return { data: undefined as T, warnings: [], infos: [] };
  const body = await response.json().catch(() => {
    throw new ApiError(response.status, '', 'The response is not JSON. A proxy may have answered instead of the server: reload the browser tab.');
  });
  return { data: body.data, warnings: body.warnings ?? [], infos: body.infos ?? [] };
}

/** get reads an endpoint below api/v1/. */
export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<ApiResponse<T>> {
  const query = form(params).toString();
  return parseResponse<T>(await send(`api/v1/${path}${query && '?' + query}`, { signal }));
}

/** post sends a form to an endpoint below api/v1/. Queries go this way, because a URL has a limit. */
export async function post<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<ApiResponse<T>> {
  return parseResponse<T>(await send(`api/v1/${path}`, { method: 'POST', body: form(params), signal }));
}

/** remove deletes what the parameters name. */
export async function remove(path: string, params: Params): Promise<void> {
  await parseResponse(await send(`api/v1/${path}?${form(params)}`, { method: 'DELETE' }));
}

/** text reads a path as text. */
export async function text(path: string, signal?: AbortSignal): Promise<string> {
  const response = await send(path, { signal });
  if (!response.ok) throw await errorOf(response);
  return response.text();
}
